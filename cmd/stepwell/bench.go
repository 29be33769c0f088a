package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
)

// benchResult is one run of a workload, or, with Workload "fsync", the disk's own speed beside it.
type benchResult struct {
	Workload  string  `json:"workload"`
	N         int     `json:"n"`
	MS        float64 `json:"ms"`
	MSPerStep float64 `json:"ms_per_step"`
	StepsPerS float64 `json:"steps_per_s"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	RSS       float64 `json:"rss_mb"`
	Lone      float64 `json:"lone_ms,omitempty"` // a one-step execution submitted in the middle
	// Compiling and storing the pipeline before it is started, which happens once per version: not
	// part of the figures above.
	PrepareMS  float64 `json:"prepare_ms"`
	PrepareRSS float64 `json:"prepare_rss_mb"`
	Store      string  `json:"store"`
	Queue      string  `json:"queue"`
	Sync       string  `json:"sync"`
	Fsync      float64 `json:"fsync_p50_ms"`
}

type benchOptions struct {
	n, runs      int
	store, queue string
	sync         choice
	output       choice
	workers      int
	schemas      string // a folder, for stac
	format       choice // of stac's output
	profile      string // a file
}

// benchWorkloads are those of no-op steps, in order.
var benchWorkloads = []string{"start", "chain", "fanout", "diamond"}

// benchDefaults is n of each workload when none is given.
var benchDefaults = map[string]int{"start": 200, "chain": 100, "fanout": 10_000, "diamond": 1_000}

func newBenchCommand(out io.Writer) *cobra.Command {
	o := benchOptions{sync: choice{"full", []string{"full", "normal", "both"}}, output: choice{"text", []string{"text", "json", "markdown"}},
		format: choice{"all", []string{"all", "ndjson.zst", "parquet"}}}
	cmd := &cobra.Command{
		Use:   "bench start|chain|fanout|diamond|all|stream|stac|serve",
		Short: "Measures this machine: no-op steps through the whole path, durable commits included",
		Long: `Runs no-op steps through the whole product and prints what they cost.

  start    from the start call to the first step's code, n times one after the other
  chain    n steps of one execution, each after the one before; p50 and p99 are between two steps
  fanout   n parallel steps and a join; p50 and p99 are of a step from being queued to its end;
           with n of 10,000 and more, a one-step execution is submitted in the middle and its
           time is printed as "lone"
  diamond  n executions of A → (B, C) → D, 100 at a time; p50 and p99 are of whole executions
  all      the four above, each with its own n
  stream   n items of about 1 KB from an NDJSON file through two modifiers (one sets two members, one
           filters) into another; once without and once with checkpoints. Needs 2.5 KB of disk per item
  stac     n Landsat-like items of about 20 KB, made in memory, through stac.update and stac.validate (core and
           three extensions) to NDJSON with Zstandard, and a fifth of them to GeoParquet. The schemas come from
           --schema-dir, else from the cache and the network
  serve    a server under load for n seconds: 100 executions of two seconds at a time, each followed over a WebSocket, 50 other
           requests a second and 100 schedules of every five seconds; then 1,000 executions at once

fsync is the median time of this disk's own flush of 4 KiB, measured just before: no commit that
survives a loss of power can be faster. --sync both measures with and without it in turns, so that
other work on the machine slows both; -o markdown gives the medians as a table.`,
		Args:      arguments(1, 1, "WORKLOAD"),
		ValidArgs: []string{"start", "chain", "fanout", "diamond", "all", "stream", "stac", "serve"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return profiled(o.profile, func() error { return bench(cmd.Context(), out, args[0], o) })
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.n, "n", 0, "size of the workload; defaults to 200, 100, 10000, 1000, 1000000, 1000000 and 20")
	f.IntVar(&o.runs, "runs", 5, "how often")
	f.StringVar(&o.store, "store", "", "database as sqlite:PATH; defaults to a temporary one")
	f.StringVar(&o.queue, "queue", "memory:", "queue; memory: is the embedded one")
	f.Var(&o.sync, "sync", "what a commit survives: full (loss of power), normal (death of the process), or both in turns")
	f.VarP(&o.output, "output", "o", "text, json or markdown")
	f.IntVar(&o.workers, "workers", 0, "how many steps run at once; defaults to that of run")
	f.StringVar(&o.schemas, "schema-dir", "", "stac: `folder` of schemas, laid out as <host>/<path> with an index.json")
	f.Var(&o.format, "format", "stac: measure one output; parquet then gets all n items")
	f.StringVar(&o.profile, "cpu-profile", "", "`file` for a CPU profile, which go tool pprof shows")
	return cmd
}

// profiled runs f and writes where its time went, if a file is named.
func profiled(path string, f func() error) error {
	if path == "" {
		return f()
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func bench(ctx context.Context, out io.Writer, workload string, o benchOptions) error {
	if workload == "stream" || workload == "stac" || workload == "serve" {
		if o.sync.value == "both" || o.output.value == "markdown" {
			return invalid("", "--sync both and -o markdown are for start, chain, fanout, diamond and all")
		}
		if workload == "stream" {
			return benchStream(ctx, out, o)
		}
		if workload == "stac" {
			return benchStac(ctx, out, o)
		}
		return benchServe(ctx, out, o)
	}
	workloads := []string{workload}
	if workload == "all" {
		workloads = benchWorkloads
	} else if !slices.Contains(benchWorkloads, workload) {
		return invalid("start, chain, fanout, diamond, all, stream, stac or serve", "unknown workload %q", workload)
	}
	if o.n < 0 || o.n > 1_000_000 || o.runs < 1 || o.runs > 1000 {
		return invalid("", "n must be 1 to 1,000,000 and runs 1 to 1,000")
	}
	if o.queue != "memory:" {
		return invalid("this version has memory: only", "queue %q", o.queue)
	}
	dir, err := os.MkdirTemp("", "stepwell-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := benchStore(&o, dir); err != nil {
		return err
	}
	fsync, err := fsyncTime(filepath.Dir(strings.TrimPrefix(o.store, "sqlite:")))
	if err != nil {
		return err
	}
	if o.output.value == "text" {
		fmt.Fprintf(out, "%-8s %-6s %8s %10s %12s %12s %9s %9s %8s %9s\n", "workload", "sync", "n", "ms", "ms/step", "steps/s", "p50 ms", "p99 ms", "rss MB", "fsync ms")
	}
	var all []*benchResult
	for _, w := range workloads {
		results, err := benchRuns(ctx, out, w, dir, fsync, o)
		if err != nil {
			return fmt.Errorf("bench %s: %w", w, err)
		}
		all = append(all, results...)
	}
	if o.output.value == "markdown" {
		return benchTable(out, all)
	}
	return nil
}

// benchRuns runs a workload as often as is asked for, with both kinds of commits in turns.
func benchRuns(ctx context.Context, out io.Writer, workload, dir string, fsync float64, o benchOptions) (all []*benchResult, err error) {
	n := cmp.Or(o.n, benchDefaults[workload])
	kinds := []string{o.sync.value}
	if o.sync.value == "both" {
		kinds = []string{"full", "normal"}
	}
	for run := range o.runs {
		for _, kind := range kinds {
			at := o
			at.sync.value = kind
			if strings.HasPrefix(o.store, "sqlite:"+dir) {
				at.store = fmt.Sprintf("sqlite:%s", filepath.Join(dir, fmt.Sprintf("%s-%s-%d.db", workload, kind, run)))
			}
			r, err := benchRun(ctx, workload, n, at)
			if err != nil {
				return nil, err
			}
			r.Fsync, r.Store, r.Queue, r.Sync = fsync, "sqlite", "memory", kind
			all = append(all, r)
			if err := printBench(out, r, o.output.value); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func benchStore(o *benchOptions, dir string) error {
	switch {
	case o.store == "":
		o.store = "sqlite:" + filepath.Join(dir, "0.db")
	case !strings.HasPrefix(o.store, "sqlite:") || len(o.store) == len("sqlite:"):
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("store %q", o.store), Hint: "this version has sqlite:PATH only"}
	}
	return nil
}

func printBench(out io.Writer, r *benchResult, format string) error {
	switch format {
	case "json":
		return json.NewEncoder(out).Encode(r)
	case "markdown":
		return nil // the medians, at the end
	}
	_, err := fmt.Fprintf(out, "%-8s %-6s %8d %10.1f %12.4f %12.0f %9.3f %9.3f %8.1f %9.3f", r.Workload, r.Sync, r.N, r.MS, r.MSPerStep, r.StepsPerS, r.P50, r.P99, r.RSS, r.Fsync)
	if err == nil && r.Lone > 0 {
		_, err = fmt.Fprintf(out, "  lone %.1f ms", r.Lone)
	}
	fmt.Fprintln(out)
	return err
}
