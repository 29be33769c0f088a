// Package queue is the volatile half of Stepwell: it carries dispatched steps to workers. It is a
// hint, never the truth: a queue may lose everything at any moment, and the store rebuilds it.
//
// Memory is the reference and the embedded queue; package queuetest is the contract of a
// queue (specification: pipeline-steps, "Redis Queue Integration").
package queue

import (
	"context"
	"time"
)

// Message says that a step may run.
type Message struct {
	Run      int64  // number of the execution
	Idx      int32  // of the step in it
	Epoch    uint32 // a message of another epoch than the step's is stale
	Priority int    // higher first
	Queue    string // its limits apply; one without limits, such as "", is DefaultQueue
	Away     bool   // Memory gives it to Take alone: who pulls cannot deal with it
	Since    uint32 // when it began to wait, for people: seconds since 1970; 0: nobody says
	// Body is the task itself. A Queue is within the process and returns it as pushed; a distributor to other
	// processes keeps the tasks and sends the needed parts.
	Body any
}

// Queue hands out messages, first pull first. Within one execution and priority the order is that of Push; executions
// of equal priority take turns, so that a small one is not stuck behind a large one. Queues with limits of their own
// (Limits) are independent: order and turns hold within each, and a full one delays no other. A message pushed twice
// comes twice: its Epoch identifies it. A pulled message comes again only when its lease ends (Lease.Until) before it
// is acknowledged or extended; leases of Memory never do.
type Queue interface {
	// Push adds messages, all of them or none, and does not wait. It keeps nothing of the slice.
	Push(ctx context.Context, messages []Message) error
	// Pull waits for messages and returns at most max (at least one) of them under a lease. Its error is the
	// context's, or ErrClosed; with an ended context it returns none.
	Pull(ctx context.Context, max int) ([]Lease, error)
	// Extend renews leases; it returns those that had ended.
	Extend(ctx context.Context, leases []Lease) (gone []Lease, err error)
	// Ack ends leases: the messages have been dealt with, and count no more towards limits. Twice is harmless.
	Ack(ctx context.Context, leases []Lease) error
}

// Lease is a message in a worker's hands.
type Lease struct {
	Message
	Token uint64
	Until time.Time // zero: as long as the process lives
}

// ErrClosed is the error of a queue that has been closed.
const ErrClosed = closedError("queue is closed")

type closedError string

func (e closedError) Error() string { return string(e) }

// DefaultQueue is the queue of messages that name none that is set up.
const DefaultQueue = "default"

// Limits are how much of a queue may be in work. The zero value is without limits.
type Limits struct {
	// Concurrency is how many leases may be out at once; below 0: none. Defaults to no limit.
	Concurrency int `json:"concurrency" minimum:"0"`
	// Rate is how many messages are given per second. Defaults to no limit.
	Rate float64 `json:"rate" minimum:"0" maximum:"1000000"`
	// Burst is how many may be given at once after a pause, with Rate. Defaults to Rate, at least 1.
	Burst int `json:"burst" minimum:"0"`
}
