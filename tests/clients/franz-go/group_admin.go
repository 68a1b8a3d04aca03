package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

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
	joined := cluster.member(t, group, topic, kgo.ClientID("the-client"), kgo.Balancers(kgo.RangeBalancer()))
	t.Go(func() error { return joined.readOn(t, func(*kgo.Record) {}) })
	t.Eventually("the member to have all", func() bool { return len(joined.partitions()) == 2 })

	listed := cases.Must(cluster.admin.ListGroups(t.Step()))[group]
	cases.Equal(t, "listed", []string{listed.ProtocolType, listed.State}, []string{"consumer", "Stable"})
	described := cases.Must(cluster.admin.DescribeGroups(t.Step(), group))[group]
	t.Check(described.Err)
	got := []string{described.State, described.ProtocolType, described.Protocol}
	cases.Equal(t, "described", got, []string{"Stable", "consumer", "range"})
	cases.Equal(t, "members", len(described.Members), 1)
	cases.Equal(t, "client", described.Members[0].ClientID, "the-client")
	assignment, _ := described.Members[0].Assigned.AsConsumer()
	assigned := slices.Sorted(slices.Values(assignment.Topics[0].Partitions))
	cases.Equal(t, "assigned", assigned, []int32{0, 1})
}

func deleteGroups(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	cluster.fill(t, topic, 1, 10)
	joined := cluster.member(t, group, topic)
	read(t, joined.Client, 10)
	t.Check(joined.CommitUncommittedOffsets(t.Step()))
	_, err := cluster.admin.DeleteGroup(t.Step(), group)
	t.WantError(err, kerr.NonEmptyGroup, "deleting a group with a member")

	joined.CloseAllowingRebalance()
	cases.Must(cluster.admin.DeleteGroup(t.Step(), group))
	cases.Equal(t, "offsets left", cases.Must(cluster.committed(t.Step(), group, topic)), map[int32]int64{})
	_, listed := cases.Must(cluster.admin.ListGroups(t.Step()))[group]
	cases.Equal(t, "listed", listed, false)
}

func groupOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	cluster.fill(t, topic, 1, 10)
	commit(t, cluster, group, topic, map[int32]int64{0: 7})
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic)), map[int32]int64{0: 7})
	first := read(t, cluster.member(t, group, topic).Client, 1)[0]
	cases.Equal(t, "the member's first offset", first.Offset, 7)
}

func deleteOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 2), t.Unique()
	commit(t, cluster, group, topic, map[int32]int64{0: 3, 1: 4})
	var set kadm.TopicsSet
	set.Add(topic, 0)
	t.Check(cases.Must(cluster.admin.DeleteOffsets(t.Step(), group, set)).Error())
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic)), map[int32]int64{1: 4})
}

func commit(t *cases.T, cluster *cluster, group, topic string, at map[int32]int64) {
	var offsets kadm.Offsets
	for partition, offset := range at {
		offsets.AddOffset(topic, partition, offset, -1)
	}
	t.Check(cluster.admin.CommitAllOffsets(t.Step(), group, offsets))
}
