package main

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"

	"github.com/dapr/durabletask-go/api/protos"
)

// digestOf goes on with a digest of the events of a history that a fold reads. Two histories with the same digest have the same fold.
func digestOf(before uint64, events []*protos.HistoryEvent) uint64 {
	var b [29]byte
	for _, e := range events {
		kind, id := byte(0), int32(0)
		switch x := e.EventType.(type) {
		case *protos.HistoryEvent_OrchestratorStarted:
			kind = 1
		case *protos.HistoryEvent_ExecutionStarted:
			kind = 2
			before = started(before, x.ExecutionStarted)
		case *protos.HistoryEvent_TaskCompleted:
			kind, id = 3, x.TaskCompleted.TaskScheduledId
		case *protos.HistoryEvent_TaskFailed:
			kind, id = 4, x.TaskFailed.TaskScheduledId
		case *protos.HistoryEvent_SubOrchestrationInstanceCompleted:
			kind, id = 5, x.SubOrchestrationInstanceCompleted.TaskScheduledId
		case *protos.HistoryEvent_SubOrchestrationInstanceFailed:
			kind, id = 6, x.SubOrchestrationInstanceFailed.TaskScheduledId
		case *protos.HistoryEvent_TimerFired:
			kind, id = 7, x.TimerFired.TimerId
		case *protos.HistoryEvent_EventRaised:
			kind = 8
		case *protos.HistoryEvent_ExecutionSuspended:
			kind = 9
		case *protos.HistoryEvent_ExecutionResumed:
			kind = 10
		case *protos.HistoryEvent_ExecutionTerminated:
			kind = 11
		default:
			continue // what the workflow itself has ordered
		}
		b[0] = kind
		binary.LittleEndian.PutUint32(b[1:], uint32(id))
		binary.LittleEndian.PutUint64(b[5:], uint64(e.Timestamp.GetSeconds()))
		binary.LittleEndian.PutUint64(b[13:], uint64(e.Timestamp.GetNanos()))
		binary.LittleEndian.PutUint64(b[21:], before)
		digest := fnv.New64a()
		digest.Write(b[:])
		before = digest.Sum64()
	}
	return before
}

// started adds what tells a history from that of an earlier workflow with the same id.
func started(before uint64, x *protos.ExecutionStartedEvent) uint64 {
	digest := fnv.New64a()
	fmt.Fprintf(digest, "%x %s %d", before, x.OrchestrationInstance.GetExecutionId().GetValue(), len(x.Input.GetValue()))
	return digest.Sum64()
}

// workflowOf is the name of the workflow that a history is of.
func workflowOf(past, fresh []*protos.HistoryEvent) string {
	for _, list := range [][]*protos.HistoryEvent{past, fresh} {
		for _, e := range list {
			if x := e.GetExecutionStarted(); x != nil {
				return x.Name
			}
		}
	}
	return ""
}
