// Go's amqp091 with Rung. usage: ./example [send [BODY]]; without `send` it consumes.
//
// Environment: RUNG_EXAMPLE_BROKER, an AMQP URL; QUEUE. A message is {"order": 17, "fails": 2}: the handler fails the first
// two times. With "why": "HTTP 503" (and "after": "2s") the consumer says why, sets the delay, and reports the success.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
)

type order struct {
	Order int    `json:"order"`
	Fails int64  `json:"fails"`
	Why   string `json:"why"`
	After string `json:"after"`
}

// ShopError is a failure with a reason, and optionally the time of the next attempt.
type ShopError struct{ text, after string }

func (e *ShopError) Error() string { return e.text }

// handle is your work.
func handle(o order, attempt int64) error {
	if attempt >= o.Fails {
		return nil
	}
	if o.Why != "" {
		return &ShopError{o.Why, o.After}
	}
	return errors.New("failed")
}

// publish waits for the confirm.
func publish(ch *amqp.Channel, exchange, key string, message amqp.Publishing) error {
	message.DeliveryMode = amqp.Persistent
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), exchange, key, false, false, message)
	if err == nil && !confirm.Wait() {
		err = errors.New("the broker refused it")
	}
	return err
}

func onMessage(ch *amqp.Channel, queue string, d amqp.Delivery) error {
	attempt, _ := d.Headers["retry-attempt"].(int64) // Rung sends an int64: an assertion to int32 would give 0, silently
	var o order
	if err := json.Unmarshal(d.Body, &o); err != nil {
		return d.Reject(false)
	}
	said := fmt.Sprintf("attempt %d %s", attempt, d.Body)
	err := handle(o, attempt)
	var shop *ShopError
	if errors.As(err, &shop) {
		// Say why, and where the message came from, unless it is a retry, which says that itself: all properties and headers,
		// plus these. Not UserId: the broker refuses another user's. Not Expiration: it could
		// run out in rung.failed. Ack after the confirm.
		headers := amqp.Table{"retry-origin-exchange": d.Exchange, "retry-origin-routing-key": d.RoutingKey}
		for name, value := range d.Headers {
			headers[name] = value
		}
		headers["retry-queue"], headers["retry-error"], headers["retry-error-type"] = queue, shop.text, "ShopError"
		if shop.after != "" {
			headers["retry-after"] = shop.after
		}
		if err := publish(ch, "rung.failed", d.RoutingKey, amqp.Publishing{Headers: headers, Body: d.Body, ContentType: d.ContentType,
			ContentEncoding: d.ContentEncoding, Priority: d.Priority, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
			MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type, AppId: d.AppId}); err != nil {
			return err
		}
		fmt.Println(said, "failed:", shop)
		return d.Ack(false)
	}
	if err != nil {
		fmt.Println(said, "rejected")
		return d.Reject(false) // no requeue: the broker dead-letters it to rung.failed
	}
	if attempt > 0 && o.Why != "" { // report the success; otherwise silence means success
		result := amqp.Table{"retry-result": "succeeded", "retry-id": d.Headers["retry-id"],
			"retry-attempt": attempt, "retry-token": d.Headers["retry-token"]}
		if err := publish(ch, "rung.results", "", amqp.Publishing{Headers: result}); err != nil {
			return err
		}
	}
	fmt.Println(said, "done")
	return d.Ack(false)
}

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	queue := env("QUEUE", "go-orders")
	connection := must(amqp.Dial(env("RUNG_EXAMPLE_BROKER", "amqp://guest:guest@127.0.0.1:5672/%2f")))
	defer connection.Close()
	ch := must(connection.Channel())
	must(0, ch.Confirm(false))
	must(0, ch.Qos(10, 0, false))
	must(ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-dead-letter-exchange": "rung.failed"}))
	if len(os.Args) > 1 && os.Args[1] == "send" {
		body := `{"order": 17, "fails": 2}`
		if len(os.Args) > 2 {
			body = os.Args[2]
		}
		var o order
		must(0, json.Unmarshal([]byte(body), &o))
		must(0, publish(ch, "", queue, amqp.Publishing{Body: []byte(body), MessageId: fmt.Sprintf("%s-%d", queue, o.Order)}))
		fmt.Println("sent", body)
		return
	}
	for d := range must(ch.Consume(queue, "", false, false, false, false, nil)) {
		if err := onMessage(ch, queue, d); err != nil {
			log.Fatal(err)
		}
	}
}
