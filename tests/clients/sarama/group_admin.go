package main

import (
	"slices"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func groupAdminCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-groups", func(t *cases.T) { describeGroups(t, cluster) })
	suite.Case("admin-delete-groups", func(t *cases.T) { deleteGroups(t, cluster) })
	suite.Case("admin-group-offsets", func(t *cases.T) { groupOffsets(t, cluster) })
	suite.Case("admin-delete-offsets", func(t *cases.T) { deleteOffsets(t, cluster) })
}

func describeGroups(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 2), t.Unique()
	named := func(config *sarama.Config) { config.ClientID = "the-client" }
	joined := cluster.join(t, group, topic, ignore, named, strategy(sarama.NewBalanceStrategyRange()))
	t.Eventually("the member to have all", func() bool { return len(joined.partitions()) == 2 })

	cases.Equal(t, "listed", cases.Must(cluster.admin.ListConsumerGroups())[group], "consumer")
	described := cases.Must(cluster.admin.DescribeConsumerGroups([]string{group}))[0]
	got := []string{described.State, described.ProtocolType, described.Protocol}
	cases.Equal(t, "described", got, []string{"Stable", "consumer", "range"})
	id, _ := joined.identity()
	member := described.Members[id]
	if member == nil {
		t.Fail("member %s is not among %v", id, described.Members)
	}
	cases.Equal(t, "client", member.ClientId, "the-client")
	assigned := cases.Must(member.GetMemberAssignment()).Topics[topic]
	cases.Equal(t, "assigned", slices.Sorted(slices.Values(assigned)), []int32{0, 1})
}

func deleteGroups(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	commit(t, cluster, group, topic, map[int32]sarama.OffsetAndMetadata{0: {Offset: 0, LeaderEpoch: -1}})
	joined := cluster.join(t, group, topic, ignore)
	t.Eventually("the member to have its partition", func() bool { return len(joined.partitions()) == 1 })
	err := cluster.admin.DeleteConsumerGroup(group)
	t.WantError(err, sarama.ErrNonEmptyGroup, "deleting a group with a member")

	t.Check(joined.leave())
	t.Check(cluster.admin.DeleteConsumerGroup(group))
	cases.Equal(t, "offsets left", cases.Must(cluster.committed(group, topic)), map[int32]int64{})
	_, listed := cases.Must(cluster.admin.ListConsumerGroups())[group]
	cases.Equal(t, "listed", listed, false)
}

func groupOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	cluster.fill(t, topic, 1, 10)
	commit(t, cluster, group, topic, map[int32]sarama.OffsetAndMetadata{0: {Offset: 7, LeaderEpoch: -1}})
	cases.Equal(t, "committed", cases.Must(cluster.committed(group, topic)), map[int32]int64{0: 7})
	offsets := make(chan int64, 10)
	cluster.join(t, group, topic, func(message *sarama.ConsumerMessage) { offsets <- message.Offset })
	t.Eventually("the member to read", func() bool { return len(offsets) > 0 })
	cases.Equal(t, "the member's first offset", <-offsets, 7)
}

func deleteOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 2), t.Unique()
	at := sarama.OffsetAndMetadata{Offset: 4, LeaderEpoch: -1}
	commit(t, cluster, group, topic, map[int32]sarama.OffsetAndMetadata{0: at, 1: at})
	t.Check(cluster.admin.DeleteConsumerGroupOffset(group, topic, 0))
	cases.Equal(t, "committed", cases.Must(cluster.committed(group, topic)), map[int32]int64{1: 4})
}
