package api

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/partition/ledger"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/trigger"
)

// The shapes of partitions.
type (
	Partitions = ledger.Table
	Partition  = ledger.Partition
)

// ListPartitions selects partitions of a pipeline.
type ListPartitions struct {
	PipelinePath
	ledger.Filter
}

// GetPartition selects one partition of a pipeline.
type GetPartition struct {
	PipelinePath
	Partition string `query:"partition" required:"true" maxLength:"1000" doc:"Its name, as member partition has it: its values in order, each escaped as in a URL's path, joined by slashes."`
}

// ComparePartitions asks in which state partitions would be with a document.
type ComparePartitions struct {
	Document Document `json:"document" doc:"Its name says which stored pipeline's partitions are meant."`
	States   []string `json:"state,omitempty" maxItems:"5" doc:"Only partitions in one of these states: missing, running, failed, stale, done. Default: all."`
	Limit    int      `json:"limit,omitempty" minimum:"0" maximum:"10000" doc:"At most so many; the grid has all in any case. Default 100."`
}

// StartPartition asks for an execution that makes a partition.
type StartPartition struct {
	Values   []string `json:"values" minItems:"1" maxItems:"4" maxLength:"255" doc:"Of the parameters that name it, in the order of settings.partition.by."`
	States   []string `json:"state,omitempty" maxItems:"5" doc:"Only if the partition is in one of these states: missing, stale, failed. Otherwise the answer has the last execution for it, and nothing is started. Default: in any."`
	Params   Object   `json:"params,omitempty" doc:"Values of the other parameters."`
	Priority int      `json:"priority,omitempty" minimum:"-1000" maximum:"1000"`
}

func (s *server) partitions() {
	handle(s, "pipeline.partitions", s.listPartitions)
	handle(s, "pipeline.partitions.get", s.getPartition)
	handle(s, "pipeline.partitions.compare", s.comparePartitions)
	handle(s, "pipeline.partitions.start", s.startPartition)
}

func (s *server) listPartitions(ctx context.Context, in *ListPartitions) (*answer[Partitions], error) {
	t, err := s.o.Partitions.Table(ctx, in.ID, nil, in.Filter)
	if err != nil {
		return nil, err
	}
	return reply(*t, nil)
}

func (s *server) getPartition(ctx context.Context, in *GetPartition) (*answer[Partition], error) {
	p, err := s.o.Partitions.One(ctx, in.ID, in.Partition)
	if err != nil {
		return nil, err
	}
	return reply(*p, nil)
}

func (s *server) comparePartitions(ctx context.Context, in *bodyInput[ComparePartitions]) (*answer[Partitions], error) {
	if err := s.fits(in.Body.Document); err != nil {
		return nil, err
	}
	if len(in.Body.Document) == 0 {
		return nil, stepwell.Invalid("give the pipeline", "document is missing")
	}
	f := ledger.Filter{States: in.Body.States, Limit: in.Body.Limit}
	if f.Limit == 0 {
		f.Limit = 100
	}
	t, err := s.o.Partitions.Table(ctx, "", in.Body.Document, f)
	if err != nil {
		return nil, err
	}
	return reply(*t, nil)
}

type startPartitionInput struct {
	PipelinePath
	Body StartPartition
}

func (s *server) startPartition(ctx context.Context, in *startPartitionInput) (*made[Started], error) {
	launch := pipeline.Launch{Role: access.Of(ctx).Role.String()}
	launch.Trigger, launch.Actor, launch.Priority, launch.Params = trigger.TypeManual, access.Of(ctx).Actor(), in.Body.Priority, in.Body.Params
	return s.started(ctx)(s.o.Partitions.Start(ctx, in.ID, in.Body.Values, in.Body.States, launch))
}
