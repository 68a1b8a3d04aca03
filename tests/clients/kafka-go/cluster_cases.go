package main

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

func clusterCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-cluster", func(t *cases.T) { describeCluster(t, cluster) })
	suite.Case("admin-broker-configs", func(t *cases.T) { brokerConfigs(t, cluster) })
	suite.Case("admin-quotas", func(t *cases.T) { quotas(t, cluster) })
}

func describeCluster(t *cases.T, cluster *cluster) {
	metadata := cluster.metadata(t)
	cases.Equal(t, "brokers", len(metadata.Brokers), 1)
	broker := metadata.Brokers[0]
	cases.Equal(t, "address", fmt.Sprintf("%s:%d", broker.Host, broker.Port), cluster.bootstrap)
	cases.Equal(t, "controller", metadata.Controller.ID, broker.ID)
	if !regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(metadata.ClusterID) {
		t.Fail("the cluster's id is %q", metadata.ClusterID)
	}
}

func brokerConfigs(t *cases.T, cluster *cluster) {
	broker := strconv.Itoa(cluster.metadata(t).Brokers[0].ID)
	values := map[string]string{}
	for _, config := range describeConfigs(t, cluster, kafka.ResourceTypeBroker, broker) {
		values[config.ConfigName] = config.ConfigValue
	}
	cases.Equal(t, "message.max.bytes", values["message.max.bytes"], "1048588")
}

func quotas(t *cases.T, cluster *cluster) {
	client := t.Unique()
	alter := func(ops kafka.AlterClientQuotaOps) {
		entry := kafka.AlterClientQuotaEntry{
			Entities: []kafka.AlterClientQuotaEntity{{EntityType: "client-id", EntityName: client}},
			Ops:      []kafka.AlterClientQuotaOps{ops},
		}
		request := &kafka.AlterClientQuotasRequest{Entries: []kafka.AlterClientQuotaEntry{entry}}
		t.Check(cases.Must(cluster.client.AlterClientQuotas(t.Step(), request)).Entries[0].Error)
	}
	describe := func() []kafka.DescribeClientQuotasResponseQuotas {
		exactly := kafka.DescribeClientQuotasRequestComponent{EntityType: "client-id", MatchType: 0, Match: client}
		request := &kafka.DescribeClientQuotasRequest{
			Components: []kafka.DescribeClientQuotasRequestComponent{exactly},
			Strict:     true,
		}
		response := cases.Must(cluster.client.DescribeClientQuotas(t.Step(), request))
		t.Check(response.Error)
		return response.Entries
	}
	rate := kafka.DescribeClientQuotasValue{Key: "producer_byte_rate", Value: 1_000_000}
	alter(kafka.AlterClientQuotaOps{Key: rate.Key, Value: rate.Value})
	t.Eventually("the quota to be described", func() bool { return len(describe()) == 1 })
	cases.Equal(t, "quota", describe()[0].Values, []kafka.DescribeClientQuotasValue{rate})
	alter(kafka.AlterClientQuotaOps{Key: rate.Key, Remove: true})
	t.Eventually("the quota to be gone", func() bool { return len(describe()) == 0 })
}
