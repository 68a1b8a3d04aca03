// Tries Sarama against the broker at $BOOTSTRAP.
package main

import (
	"log"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func main() {
	if cases.WantsTasks() {
		cases.RunTasks("sarama", "github.com/IBM/sarama", openSecured)
		return
	}
	suite := cases.NewSuite("sarama", "github.com/IBM/sarama")
	logger := log.New(suite.ClientLog(), "", log.Ltime|log.Lmicroseconds)
	sarama.Logger, sarama.DebugLogger = logger, logger
	cluster := newCluster(suite.Bootstrap)
	produceCases(suite, cluster)
	consumeCases(suite, cluster)
	groupCases(suite, cluster)
	transactionCases(suite, cluster)
	topicCases(suite, cluster)
	clusterCases(suite, cluster)
	groupAdminCases(suite, cluster)
	errorCases(suite, cluster)
	suite.Finish()
}
