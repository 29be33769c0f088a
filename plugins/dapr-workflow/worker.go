package main

import (
	"cmp"
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
	"github.com/stepwell/stepwell/dapr"
)

// worker takes work of workflows from a sidecar: turns of workflows, which it folds, and activities, which reach the server.
type worker struct {
	turn     func(instance string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string)
	activity func(ctx context.Context, name string, input []byte) (any, error)
	token    string // of the sidecar
	log      *slog.Logger
	// health is the HTTP API of the sidecar; nil: a sidecar that is stuck is not noticed. keep leaves such a sidecar running. alone says that no
	// other program takes workflows from it.
	health *dapr.Settings
	keep   bool
	alone  bool
	stuck  time.Duration // defaults to stuckAfter
}

// Limits of a worker.
const (
	maxItems   = 20000 // at once
	maxMessage = 64 << 20
	slowest    = 10 * time.Second // pause before it connects again
	// An orderly end answers turns until none has come for quietTime, for drainTime at most: a turn that nobody takes deadlocks daprd 1.16.0.
	quietTime = 300 * time.Millisecond
	drainTime = 5 * time.Second
)

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
	patience := cmp.Or(w.stuck, stuckAfter)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, slowest) {
		took, err := w.follow(ctx, hub, patience)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errStuck):
			patience = min(2*patience, longestStuck)
		case took > 0:
			patience = cmp.Or(w.stuck, stuckAfter)
		}
		if took >= 0 {
			pause = 100 * time.Millisecond
		}
		w.log.Warn("the sidecar is unavailable, connecting again", "sidecar", sidecar, "error", err)
		select {
		case <-time.After(pause + rand.N(pause)):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow takes work from one connection until it ends. What is under way then is given up: the sidecar gives it again. It returns how much came,
// below zero when it could not connect.
func (w *worker) follow(ending context.Context, hub protos.TaskHubSidecarServiceClient, patience time.Duration) (int, error) {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ending))
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	hello, done := context.WithTimeout(ending, 10*time.Second)
	_, err := hub.Hello(hello, &emptypb.Empty{})
	done()
	if err != nil {
		return -1, err
	}
	stream, err := hub.GetWorkItems(ctx, &protos.GetWorkItemsRequest{})
	if err != nil {
		return -1, err
	}
	w.log.Info("takes workflows from the sidecar")
	var took flow
	running.Go(func() {
		select {
		case <-ending.Done():
			took.drain(ctx)
			stop(context.Cause(ending))
		case <-ctx.Done():
		}
	})
	if w.health != nil {
		running.Go(func() { w.watch(ctx, stop, &took, patience) })
	}
	slots := make(chan struct{}, maxItems)
	for {
		item, err := stream.Recv()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return int(took.items.Load()), err
		}
		turn := item.GetOrchestratorRequest() != nil
		took.come(turn)
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return int(took.items.Load()), context.Cause(ctx)
		}
		running.Go(func() {
			defer func() { <-slots }()
			defer took.answered(turn)
			if !turn && ending.Err() != nil { // the sidecar gives it to the next program
				<-ctx.Done()
				return
			}
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
