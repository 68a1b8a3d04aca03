package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	cases "logway.io/clients/go-cases"
)

// secured is franz-go where TLS and passwords are asked for.
type secured struct {
	options []kgo.Opt
}

func openSecured(task cases.Task) (cases.Secured, error) {
	options := []kgo.Opt{kgo.SeedBrokers(task.Bootstrap)}
	if task.TLS != nil {
		options = append(options, kgo.DialTLSConfig(task.TLS))
	}
	login := scram.Auth{User: task.User, Pass: task.Password}
	switch task.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: task.User, Pass: task.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(login.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(login.AsSha512Mechanism()))
	case "OAUTHBEARER":
		options = append(options, kgo.SASL(oauth.Auth{Token: task.Token}.AsMechanism()))
	}
	return secured{options}, nil
}

func (s secured) client(more ...kgo.Opt) *kgo.Client {
	return cases.Must(kgo.NewClient(append(more, s.options...)...))
}

func (s secured) Connect(ctx context.Context) error {
	client := s.client()
	defer client.Close()
	return client.Ping(ctx)
}

func (s secured) Create(ctx context.Context, topic string) error {
	client := s.client()
	defer client.Close()
	_, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, topic)
	return err
}

func (s secured) Delete(ctx context.Context, topic string) error {
	client := s.client()
	defer client.Close()
	_, err := kadm.NewClient(client).DeleteTopic(ctx, topic)
	return err
}

func (s secured) Write(ctx context.Context, topic string, values []string) error {
	client := s.client()
	defer client.Close()
	var records []*kgo.Record
	for _, value := range values {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte(value)})
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}

func (s secured) Read(ctx context.Context, topic, group string, count int) ([]string, error) {
	client := s.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	defer client.Close()
	var values []string
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for _, record := range fetches.Records() {
			values = append(values, string(record.Value))
		}
	}
	return values, nil
}
