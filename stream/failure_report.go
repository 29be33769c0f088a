package stream

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/stream/durable"
)

// failuresHead is the head of failures.json (source-systems A.6).
type failuresHead struct {
	Workflow   string           `json:"workflow_name"`
	WorkflowID string           `json:"workflow_id"`
	Started    string           `json:"started_at"`
	Ended      string           `json:"ended_at"`
	Steps      int              `json:"total_steps"`
	Failures   int64            `json:"total_failures"`
	ByStep     map[string]int64 `json:"failures_by_step"`
}

// writeFailures writes failures.json, record by record.
func writeFailures(ctx context.Context, path, folder string, sum *summaryFile, results []*segmentResult, total int64) error {
	each := func(do func(*failureRecord) error) error {
		for _, s := range results {
			if s.Spool == "" {
				continue
			}
			if err := eachFailure(ctx, filepath.Join(folder, filepath.Base(s.Spool)), do); err != nil {
				return err
			}
		}
		return nil
	}
	head := failuresHead{Workflow: sum.Workflow, WorkflowID: sum.WorkflowID, Started: sum.Started, Ended: sum.Ended, Steps: sum.TotalSteps,
		Failures: total, ByStep: map[string]int64{}}
	err := each(func(r *failureRecord) error {
		head.ByStep[r.Step]++
		return nil
	})
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(head, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, func(w *os.File) error {
		out := bufio.NewWriterSize(w, 64<<10)
		out.Write(raw[:len(raw)-2]) // errors stay until Flush
		out.WriteString(",\n  \"failures\": [")
		if err := writeRecords(out, each); err != nil {
			return err
		}
		out.WriteString("]\n}\n")
		return out.Flush()
	})
}

// writeRecords writes the elements of the list.
func writeRecords(out *bufio.Writer, each func(do func(*failureRecord) error) error) error {
	comma := "\n    "
	err := each(func(r *failureRecord) error {
		r.At, r.Origin, r.Box = nil, nil, nil
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		out.WriteString(comma)
		_, err = out.Write(raw)
		comma = ",\n    "
		return err
	})
	if err == nil && comma[0] == ',' {
		_, err = out.WriteString("\n  ")
	}
	return err
}

// maxRecord bounds a line of a spool, whose texts are bounded but for their context.
const maxRecord = 16 << 20

// eachFailure reads a spool.
func eachFailure(ctx context.Context, path string, do func(*failureRecord) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return eachRecord(ctx, f, filepath.Base(path), do)
}

func eachRecord(ctx context.Context, in io.Reader, name string, do func(*failureRecord) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), maxRecord)
	for lines.Scan() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var r failureRecord
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := do(&r); err != nil {
			return err
		}
	}
	return lines.Err()
}
