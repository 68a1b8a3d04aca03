package main

import (
	"slices"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

func groupAdminCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-groups", func(t *cases.T) { describeGroups(t, cluster) })
	suite.Case("admin-delete-groups", func(t *cases.T) { deleteGroups(t, cluster) })
	suite.Case("admin-group-offsets", func(t *cases.T) { groupOffsets(t, cluster) })
	suite.Case("admin-delete-offsets", func(t *cases.T) { deleteOffsets(t, cluster) })
}

// join makes a member that reads nothing, and returns its generation once it has its partitions.
func (c *cluster) join(t *cases.T, group, topic string) (*kafka.ConsumerGroup, *kafka.Generation) {
	c.awaitCoordinator(t, group, topic)
	joined := cases.Must(kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                group,
		Brokers:           []string{c.bootstrap},
		Dialer:            &kafka.Dialer{ClientID: "the-client"},
		Topics:            []string{topic},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: heartbeatInterval,
	}))
	t.Cleanup(func() { joined.Close() })
	return joined, cases.Must(joined.Next(t.Step()))
}

func describeGroups(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 2), t.Unique()
	_, generation := cluster.join(t, group, topic)
	cases.Equal(t, "assigned", len(generation.Assignments[topic]), 2)

	cases.Equal(t, "listed", listedType(t, cluster, group), "consumer")
	request := &kafka.DescribeGroupsRequest{GroupIDs: []string{group}}
	described := cases.Must(cluster.client.DescribeGroups(t.Step(), request)).Groups[0]
	t.Check(described.Error)
	cases.Equal(t, "state", described.GroupState, "Stable")
	cases.Equal(t, "members", len(described.Members), 1)
	member := described.Members[0]
	cases.Equal(t, "member", []string{member.MemberID, member.ClientID}, []string{generation.MemberID, "the-client"})
	cases.Equal(t, "topics of the member", member.MemberMetadata.Topics, []string{topic})
	assigned := slices.Sorted(slices.Values(member.MemberAssignments.Topics[0].Partitions))
	cases.Equal(t, "assigned", assigned, []int{0, 1})
}

// listedType is the protocol type that a group is listed with; empty if it is not listed.
func listedType(t *cases.T, cluster *cluster, group string) string {
	response := cases.Must(cluster.client.ListGroups(t.Step(), &kafka.ListGroupsRequest{}))
	t.Check(response.Error)
	for _, listed := range response.Groups {
		if listed.GroupID == group {
			return listed.ProtocolType
		}
	}
	return ""
}

func deleteGroups(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	t.Check(cluster.commit(t, outside(group, topic, kafka.OffsetCommit{Partition: 0, Offset: 3})))
	joined, _ := cluster.join(t, group, topic)
	t.WantError(deleteGroup(t, cluster, group), kafka.NonEmptyGroup, "deleting a group with a member")

	t.Check(joined.Close())
	t.Check(deleteGroup(t, cluster, group))
	cases.Equal(t, "offsets left", cases.Must(cluster.committed(t.Step(), group, topic, 1)), map[int32]int64{})
	cases.Equal(t, "listed", listedType(t, cluster, group), "")
}

func deleteGroup(t *cases.T, cluster *cluster, group string) error {
	request := &kafka.DeleteGroupsRequest{GroupIDs: []string{group}}
	return cases.Must(cluster.client.DeleteGroups(t.Step(), request)).Errors[group]
}

func groupOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	cluster.fill(t, topic, 1, 10)
	t.Check(cluster.commit(t, outside(group, topic, kafka.OffsetCommit{Partition: 0, Offset: 7})))
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic, 1)), map[int32]int64{0: 7})
	cases.Equal(t, "the member's first offset", read(t, cluster.member(t, group, topic), 1)[0].Offset, 7)
}

func deleteOffsets(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 2), t.Unique()
	both := outside(group, topic, kafka.OffsetCommit{Partition: 0, Offset: 3}, kafka.OffsetCommit{Partition: 1, Offset: 4})
	t.Check(cluster.commit(t, both))
	request := &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {0}}}
	response := cases.Must(cluster.client.OffsetDelete(t.Step(), request))
	t.Check(response.Error)
	t.Check(response.Topics[topic][0].Error)
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic, 2)), map[int32]int64{1: 4})
}
