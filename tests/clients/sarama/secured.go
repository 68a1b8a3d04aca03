package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"

	cases "logway.io/clients/go-cases"
)

// secured is Sarama where TLS and passwords are asked for.
type secured struct {
	brokers []string
	config  *sarama.Config
}

func openSecured(task cases.Task) (cases.Secured, error) {
	config := config()
	config.Net.TLS.Enable = task.TLS != nil
	config.Net.TLS.Config = task.TLS
	// By default it tries four times.
	config.Metadata.Retry.Max = 0
	config.Consumer.Group.Rebalance.Retry.Max = 0
	config.Producer.Partitioner = sarama.NewHashPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if task.Mechanism != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLMechanism(task.Mechanism)
		config.Net.SASL.User, config.Net.SASL.Password = task.User, task.Password
		config.Net.SASL.TokenProvider = token(task.Token)
	}
	hashes := map[string]scram.HashGeneratorFcn{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New}
	if hash := hashes[task.Mechanism]; hash != nil {
		config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &scramClient{hash: hash} }
	}
	return secured{[]string{task.Bootstrap}, config}, nil
}

// scramClient is the client that Sarama leaves to its users; its documentation proposes this library.
type scramClient struct {
	hash scram.HashGeneratorFcn
	*scram.ClientConversation
}

func (c *scramClient) Begin(user, password, identity string) error {
	client, err := c.hash.NewClient(user, password, identity)
	if err == nil {
		c.ClientConversation = client.NewConversation()
	}
	return err
}

type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}

func (s secured) Connect(context.Context) error {
	client, err := sarama.NewClient(s.brokers, s.config)
	if err != nil {
		return err
	}
	return client.Close()
}

func (s secured) Create(_ context.Context, topic string) error {
	return s.administer(func(admin sarama.ClusterAdmin) error {
		return admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false)
	})
}

func (s secured) Delete(_ context.Context, topic string) error {
	return s.administer(func(admin sarama.ClusterAdmin) error { return admin.DeleteTopic(topic) })
}

func (s secured) administer(do func(admin sarama.ClusterAdmin) error) error {
	admin, err := sarama.NewClusterAdmin(s.brokers, s.config)
	if err != nil {
		return err
	}
	defer admin.Close()
	return do(admin)
}

func (s secured) Write(_ context.Context, topic string, values []string) error {
	producer, err := sarama.NewSyncProducer(s.brokers, s.config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, value := range values {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			return err
		}
	}
	return nil
}

func (s secured) Read(ctx context.Context, topic, group string, count int) ([]string, error) {
	consumer, err := sarama.NewConsumerGroup(s.brokers, group, s.config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader := &collector{count: count}
	for len(reader.values) < count && err == nil {
		err = consumer.Consume(ctx, []string{topic}, reader)
	}
	return reader.values, err
}

// collector ends its session when it has so many values.
type collector struct {
	count  int
	values []string
}

func (*collector) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*collector) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (c *collector) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		c.values = append(c.values, string(message.Value))
		if len(c.values) >= c.count {
			break
		}
	}
	return nil
}
