package main

import (
	"regexp"
	"strconv"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func clusterCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-cluster", func(t *cases.T) { describeCluster(t, cluster) })
	suite.Case("admin-broker-configs", func(t *cases.T) { brokerConfigs(t, cluster) })
	suite.Case("admin-log-dirs", func(t *cases.T) { logDirs(t, cluster) })
	suite.Case("admin-quotas", func(t *cases.T) { quotas(t, cluster) })
}

func describeCluster(t *cases.T, cluster *cluster) {
	brokers, controller, err := cluster.admin.DescribeCluster()
	t.Check(err)
	cases.Equal(t, "brokers", len(brokers), 1)
	cases.Equal(t, "address", brokers[0].Addr(), cluster.bootstrap)
	cases.Equal(t, "controller", controller, brokers[0].ID())
	// The admin client keeps the id to itself.
	broker := cases.Must(cluster.client.Controller())
	described := cases.Must(broker.DescribeCluster(sarama.NewDescribeClusterRequest(sarama.MaxVersion)))
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(described.ClusterID) {
		t.Fail("the cluster's id is %q", described.ClusterID)
	}
}

func brokerConfigs(t *cases.T, cluster *cluster) {
	broker := strconv.Itoa(int(cluster.client.Brokers()[0].ID()))
	described := cases.Must(cluster.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.BrokerResource, Name: broker}))
	values := map[string]string{}
	for _, config := range described {
		values[config.Name] = config.Value
	}
	cases.Equal(t, "message.max.bytes", values["message.max.bytes"], "1048588")
}

func logDirs(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 100)
	broker := cluster.client.Brokers()[0].ID()
	for _, dir := range cases.Must(cluster.admin.DescribeLogDirs([]int32{broker}))[broker] {
		cases.Equal(t, "error", dir.ErrorCode, sarama.ErrNoError)
		for _, described := range dir.Topics {
			if described.Topic == topic && described.Partitions[0].Size > 0 {
				return
			}
		}
	}
	t.Fail("no bytes of the partition are described")
}

func quotas(t *cases.T, cluster *cluster) {
	client := t.Unique()
	alter := func(op sarama.ClientQuotasOp) {
		entity := []sarama.QuotaEntityComponent{{
			EntityType: sarama.QuotaEntityClientID,
			MatchType:  sarama.QuotaMatchExact,
			Name:       client,
		}}
		t.Check(cluster.admin.AlterClientQuotas(entity, op, false))
	}
	describe := func() []sarama.DescribeClientQuotasEntry {
		asked := []sarama.QuotaFilterComponent{{
			EntityType: sarama.QuotaEntityClientID,
			MatchType:  sarama.QuotaMatchExact,
			Match:      client,
		}}
		return cases.Must(cluster.admin.DescribeClientQuotas(asked, true))
	}
	alter(sarama.ClientQuotasOp{Key: "producer_byte_rate", Value: 1_000_000})
	t.Eventually("the quota to be described", func() bool { return len(describe()) == 1 })
	cases.Equal(t, "quota", describe()[0].Values, map[string]float64{"producer_byte_rate": 1_000_000})
	alter(sarama.ClientQuotasOp{Key: "producer_byte_rate", Remove: true})
	t.Eventually("the quota to be gone", func() bool { return len(describe()) == 0 })
}
