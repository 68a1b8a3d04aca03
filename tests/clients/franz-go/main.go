// Tries franz-go, with its admin client kadm, against the broker at $BOOTSTRAP.
package main

import cases "logway.io/clients/go-cases"

func main() {
	if cases.WantsTasks() {
		cases.RunTasks("franz-go", "github.com/twmb/franz-go", openSecured)
		return
	}
	suite := cases.NewSuite("franz-go", "github.com/twmb/franz-go")
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
