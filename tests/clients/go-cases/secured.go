package cases

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Task is what tests/security/clients/matrix.py asks for: who goes where, and does what. What is empty is not given.
type Task struct {
	Bootstrap, Mechanism, User, Password, Token string
	// TLS is nil for a plain connection.
	TLS             *tls.Config
	name, do, topic string
}

// Cannot is an error that says what a client does not have.
type Cannot string

func (c Cannot) Error() string { return string(c) }

// Secured is a client for one task.
type Secured interface {
	Connect(ctx context.Context) error
	Create(ctx context.Context, topic string) error
	Write(ctx context.Context, topic string, values []string) error
	Read(ctx context.Context, topic, group string, count int) ([]string, error)
	Delete(ctx context.Context, topic string) error
}

// WantsTasks is whether the program is to do tasks, and not the cases.
func WantsTasks() bool {
	return slices.Contains(os.Args[1:], "secured")
}

// RunTasks does what standard input says, and tells what became of it.
func RunTasks(client, module string, open func(task Task) (Secured, error)) {
	fmt.Printf("client\t%s\t%s\n", client, strings.TrimPrefix(moduleVersion(module), "v"))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		task := readTask(lines.Text())
		err := perform(task, open)
		var cannot Cannot
		switch {
		case err == nil:
			fmt.Printf("%s\tok\n", task.name)
		case errors.As(err, &cannot):
			fmt.Printf("%s\tcannot\t%s\n", task.name, cannot)
		default:
			fmt.Printf("%s\terror\t%T: %s\n", task.name, innermost(err), oneLine(err))
		}
	}
}

func readTask(line string) Task {
	fields := map[string]string{}
	for field := range strings.SplitSeq(line, "\t") {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	task := Task{
		Bootstrap: fields["bootstrap"],
		Mechanism: fields["mechanism"],
		User:      fields["user"],
		Password:  fields["password"],
		Token:     fields["token"],
		name:      fields["task"],
		do:        fields["do"],
		topic:     fields["topic"],
	}
	if authority := fields["ca"]; authority != "" {
		task.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		task.TLS.RootCAs.AppendCertsFromPEM(Must(os.ReadFile(authority)))
	}
	if certificate := fields["certificate"]; certificate != "" {
		task.TLS.Certificates = []tls.Certificate{Must(tls.LoadX509KeyPair(certificate, fields["key"]))}
	}
	return task
}

func perform(task Task, open func(task Task) (Secured, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), StepDeadline)
	defer cancel()
	client, err := open(task)
	if err != nil {
		return err
	}
	values := make([]string, 10)
	for number := range values {
		values[number] = fmt.Sprint(number)
	}
	switch task.do {
	case "connect":
		return client.Connect(ctx)
	case "create":
		return client.Create(ctx, task.topic)
	case "write":
		return client.Write(ctx, task.topic, values)
	case "read":
		_, err := client.Read(ctx, task.topic, task.topic, 1)
		return err
	}
	if err := client.Create(ctx, task.topic); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := client.Write(ctx, task.topic, values); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	read, err := client.Read(ctx, task.topic, task.topic, len(values))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if !slices.Equal(read, values) {
		return fmt.Errorf("read %v", read)
	}
	return client.Delete(ctx, task.topic)
}

// innermost is what an error was at first: errors that wrap others are often of types without names.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
