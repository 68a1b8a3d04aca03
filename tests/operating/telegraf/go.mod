module logway.io/operating/telegraf

go 1.26.0

require github.com/influxdata/telegraf v1.34.0

require (
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/prometheus/client_model v0.6.1 // indirect
	github.com/prometheus/common v0.62.0 // indirect
	google.golang.org/protobuf v1.36.4 // indirect
)
