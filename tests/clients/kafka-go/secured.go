package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	cases "logway.io/clients/go-cases"
)

// secured is kafka-go where TLS and passwords are asked for.
type secured struct {
	task  cases.Task
	login sasl.Mechanism
}

func openSecured(task cases.Task) (cases.Secured, error) {
	var login sasl.Mechanism
	var err error
	switch task.Mechanism {
	case "PLAIN":
		login = plain.Mechanism{Username: task.User, Password: task.Password}
	case "SCRAM-SHA-256":
		login, err = scram.Mechanism(scram.SHA256, task.User, task.Password)
	case "SCRAM-SHA-512":
		login, err = scram.Mechanism(scram.SHA512, task.User, task.Password)
	case "OAUTHBEARER":
		err = cases.Cannot("has no such mechanism")
	}
	return secured{task, login}, err
}

// client knows nothing of the cluster yet, which else its transport would from earlier.
func (s secured) client() *kafka.Client {
	transport := &kafka.Transport{TLS: s.task.TLS, SASL: s.login}
	return &kafka.Client{Addr: kafka.TCP(s.task.Bootstrap), Transport: transport, Timeout: cases.StepDeadline}
}

func (s secured) Connect(ctx context.Context) error {
	_, err := s.client().Metadata(ctx, &kafka.MetadataRequest{})
	return err
}

func (s secured) Create(ctx context.Context, topic string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: 1}
	answer, err := s.client().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s secured) Delete(ctx context.Context, topic string) error {
	answer, err := s.client().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (s secured) Write(ctx context.Context, topic string, values []string) error {
	client := s.client()
	writer := &kafka.Writer{Addr: client.Addr, Transport: client.Transport, Topic: topic, RequiredAcks: kafka.RequireAll}
	writer.BatchTimeout = 5 * time.Millisecond
	defer writer.Close()
	var messages []kafka.Message
	for _, value := range values {
		messages = append(messages, kafka.Message{Value: []byte(value)})
	}
	err := writer.WriteMessages(ctx, messages...)
	var of kafka.WriteErrors
	if errors.As(err, &of) {
		return of[0]
	}
	return err
}

// Read tells what the reader logs, too: it tries again for ever.
func (s secured) Read(ctx context.Context, topic, group string, count int) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:     []string{s.task.Bootstrap},
		Dialer:      &kafka.Dialer{TLS: s.task.TLS, SASLMechanism: s.login, Timeout: 5 * time.Second},
		GroupID:     group,
		Topic:       topic,
		StartOffset: kafka.FirstOffset,
		MaxWait:     500 * time.Millisecond,
		ErrorLogger: kafka.LoggerFunc(func(_ string, arguments ...any) {
			for _, argument := range arguments {
				if code, isCode := argument.(kafka.Error); isCode && !code.Temporary() {
					cancel(code)
				}
			}
		}),
	})
	defer reader.Close()
	var values []string
	for len(values) < count {
		message, err := reader.ReadMessage(ctx)
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, err
		}
		values = append(values, string(message.Value))
	}
	return values, nil
}
