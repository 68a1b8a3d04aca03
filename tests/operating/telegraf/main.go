// Reads a page of metrics from stdin as Telegraf's input does, and prints how many there are of each type, as JSON.
package main

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/influxdata/telegraf/plugins/parsers/prometheus"
)

func main() {
	page, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	parser := prometheus.Parser{MetricVersion: 1, Header: http.Header{"Content-Type": {os.Args[1]}}}
	metrics, err := parser.Parse(page)
	if err != nil {
		log.Fatal(err)
	}
	counts := map[string]int{"counter": 0, "gauge": 0, "histogram": 0, "untyped": 0}
	names := []string{"", "counter", "gauge", "untyped", "summary", "histogram"}
	for _, metric := range metrics {
		counts[names[metric.Type()]]++
	}
	if err := json.NewEncoder(os.Stdout).Encode(counts); err != nil {
		log.Fatal(err)
	}
}
