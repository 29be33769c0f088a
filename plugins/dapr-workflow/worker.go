package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/dapr/durabletask-go/api/protos"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/stepwell/stepwell"
)

// worker takes work of workflows from a sidecar: turns of workflows, which it folds, and activities, which reach the server.
type worker struct {
	turn     func(instance string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string)
	activity func(ctx context.Context, name string, input []byte) (any, error)
	token    string // of the sidecar
	log      *slog.Logger
}

// Limits of a worker.
const (
	maxItems   = 20000 // at once
	maxMessage = 64 << 20
	slowest    = 10 * time.Second // pause before it connects again
	// idle is how long a connection may bring nothing before the program connects anew, at first; each time in vain it waits twice as long, up to
	// longestIdle. daprd 1.16.0 was seen to give nothing to a program that had come after another one was killed.
	idle        = 20 * time.Second
	longestIdle = 10 * time.Minute
)

// errIdle ends a connection that brings nothing.
var errIdle = errors.New("nothing has come for a while")

// serve works until ctx ends. It connects again whenever the sidecar goes away.
func (w *worker) serve(ctx context.Context, sidecar string) error {
	conn, err := grpc.NewClient(sidecar, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		return err
	}
	defer conn.Close()
	hub := protos.NewTaskHubSidecarServiceClient(conn)
	if w.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "dapr-api-token", w.token)
	}
	patience := idle
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, slowest) {
		came, err := w.follow(ctx, hub, patience)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, errIdle):
			patience, pause = min(2*patience, longestIdle), 500*time.Millisecond
			if came > 0 {
				patience = idle
			}
		case came >= 0:
			pause = 100 * time.Millisecond
		}
		if !errors.Is(err, errIdle) {
			w.log.Warn("the sidecar is away, connecting again", "sidecar", sidecar, "error", err)
		}
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow takes work from one connection until it ends, or brings nothing while nothing is under way. What is under way then is given up: the sidecar
// gives it again. It returns how much came, below zero when it could not connect.
func (w *worker) follow(ctx context.Context, hub protos.TaskHubSidecarServiceClient, patience time.Duration) (came int, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	slots := make(chan struct{}, maxItems)
	hello, done := context.WithTimeout(ctx, 10*time.Second)
	_, err = hub.Hello(hello, &emptypb.Empty{})
	done()
	if err != nil {
		return -1, err
	}
	stream, err := hub.GetWorkItems(ctx, &protos.GetWorkItemsRequest{})
	if err != nil {
		return -1, err
	}
	w.log.Info("takes workflows from the sidecar")
	watch := time.NewTimer(patience)
	defer watch.Stop()
	running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-watch.C:
			}
			if len(slots) == 0 { // else a step may take long
				stop(errIdle)
				return
			}
			watch.Reset(patience)
		}
	})
	for {
		item, err := stream.Recv()
		if err != nil {
			if context.Cause(ctx) == errIdle {
				err = errIdle
			}
			return came, err
		}
		came++
		watch.Reset(patience)
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return came, context.Cause(ctx)
		}
		running.Go(func() {
			defer func() { <-slots }()
			if err := w.work(ctx, hub, item); err != nil && ctx.Err() == nil {
				w.log.Warn("what was done could not be told to the sidecar, which gives it again", "error", err)
			}
		})
	}
}

func (w *worker) work(ctx context.Context, hub protos.TaskHubSidecarServiceClient, item *protos.WorkItem) error {
	if r := item.GetOrchestratorRequest(); r != nil {
		actions, status := w.turn(r.InstanceId, r.PastEvents, r.NewEvents)
		answer := &protos.OrchestratorResponse{InstanceId: r.InstanceId, CompletionToken: item.CompletionToken, Actions: actions}
		if status != "" {
			answer.CustomStatus = wrapperspb.String(status)
		}
		_, err := hub.CompleteOrchestratorTask(ctx, answer)
		return err
	}
	r := item.GetActivityRequest()
	if r == nil {
		return fmt.Errorf("unknown work %T", item.Request)
	}
	answer := &protos.ActivityResponse{InstanceId: r.OrchestrationInstance.GetInstanceId(), TaskId: r.TaskId, CompletionToken: item.CompletionToken}
	result, err := w.activity(ctx, r.Name, []byte(r.Input.GetValue()))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		var raw string
		if raw, err = encode(result); err == nil {
			answer.Result = wrapperspb.String(raw)
		}
	}
	if err != nil {
		_, hopeless := errors.AsType[permanent](err)
		answer.FailureDetails = &protos.TaskFailureDetails{ErrorType: "stepwell." + string(stepwell.CodeOf(err)), ErrorMessage: stepwell.Clip(err.Error(), 4000), IsNonRetriable: hopeless}
		w.log.Warn("activity failed", "instance", answer.InstanceId, "activity", r.Name, "permanent", hopeless, "error", err)
	}
	_, err = hub.CompleteActivityTask(ctx, answer)
	return err
}
