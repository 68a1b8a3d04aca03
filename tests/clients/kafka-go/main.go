// Tries segmentio's kafka-go against the broker at $BOOTSTRAP.
package main

import cases "logway.io/clients/go-cases"

func main() {
	if cases.WantsTasks() {
		cases.RunTasks("kafka-go", "github.com/segmentio/kafka-go", openSecured)
		return
	}
	suite := cases.NewSuite("kafka-go", "github.com/segmentio/kafka-go")
	cluster := newCluster(suite.Bootstrap)
	produceCases(suite, cluster)
	consumeCases(suite, cluster)
	groupCases(suite, cluster)
	topicCases(suite, cluster)
	clusterCases(suite, cluster)
	groupAdminCases(suite, cluster)
	errorCases(suite, cluster)

	suite.Skip("its Writer numbers no records", "produce-idempotent")
	suite.Skip("its Writer has no transactions", "transaction-commit", "transaction-abort", "transaction-fence")
	suite.Skip("it has no cooperative balancer", "group-cooperative")
	suite.Skip("its groups take no instance id", "group-static")
	suite.Skip("it has no such call", "admin-delete-records", "admin-log-dirs", "admin-producers")
	suite.Skip("its requests take no leader epoch", "error-wrong-epoch")
	suite.Finish()
}
