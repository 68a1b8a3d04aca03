package main

import (
	"fmt"
	"regexp"

	"github.com/twmb/franz-go/pkg/kadm"

	cases "logway.io/clients/go-cases"
)

func clusterCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-cluster", func(t *cases.T) { describeCluster(t, cluster) })
	suite.Case("admin-broker-configs", func(t *cases.T) { brokerConfigs(t, cluster) })
	suite.Case("admin-log-dirs", func(t *cases.T) { logDirs(t, cluster) })
	suite.Case("admin-quotas", func(t *cases.T) { quotas(t, cluster) })
}

func describeCluster(t *cases.T, cluster *cluster) {
	metadata := cases.Must(cluster.admin.BrokerMetadata(t.Step()))
	cases.Equal(t, "brokers", len(metadata.Brokers), 1)
	broker := metadata.Brokers[0]
	cases.Equal(t, "address", fmt.Sprintf("%s:%d", broker.Host, broker.Port), cluster.bootstrap)
	cases.Equal(t, "controller", metadata.Controller, broker.NodeID)
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(metadata.Cluster) {
		t.Fail("the cluster's id is %q", metadata.Cluster)
	}
}

func brokerConfigs(t *cases.T, cluster *cluster) {
	broker := cases.Must(cluster.admin.ListBrokers(t.Step()))[0].NodeID
	described := cases.Must(cluster.admin.DescribeBrokerConfigs(t.Step(), broker))
	values := map[string]string{}
	for _, config := range described[0].Configs {
		values[config.Key] = config.MaybeValue()
	}
	cases.Equal(t, "message.max.bytes", values["message.max.bytes"], "1048588")
}

func logDirs(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 100)
	var set kadm.TopicsSet
	set.Add(topic, 0)
	for _, dirs := range cases.Must(cluster.admin.DescribeAllLogDirs(t.Step(), set)) {
		t.Check(dirs.Error())
		partition, found := dirs.LookupPartition(topic, 0)
		if !found || partition.Size <= 0 {
			t.Fail("no bytes of the partition in %v", dirs)
		}
	}
}

func quotas(t *cases.T, cluster *cluster) {
	client := t.Unique()
	alter := func(op kadm.AlterClientQuotaOp) {
		entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}
		entries := []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: []kadm.AlterClientQuotaOp{op}}}
		for _, altered := range cases.Must(cluster.admin.AlterClientQuotas(t.Step(), entries)) {
			t.Check(altered.Err)
		}
	}
	describe := func() kadm.DescribedClientQuotas {
		asked := []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: &client}}
		return cases.Must(cluster.admin.DescribeClientQuotas(t.Step(), true, asked))
	}
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1_000_000})
	t.Eventually("the quota to be described", func() bool { return len(describe()) == 1 })
	cases.Equal(t, "quota", describe()[0].Values[0], kadm.ClientQuotaValue{Key: "producer_byte_rate", Value: 1_000_000})
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true})
	t.Eventually("the quota to be gone", func() bool { return len(describe()) == 0 })
}
