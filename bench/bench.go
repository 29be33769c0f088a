// Package bench measures what Stepwell costs on this machine: no-op steps, item streams and a server under load, each
// through the whole product, durable commits included.
package bench

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

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
)

// Options select and print the measurements.
type Options struct {
	// N is the size of a workload. Defaults to the workload's own.
	N int
	// Runs is how often, 1 to 1,000.
	Runs int
	// Store is a database as sqlite:PATH or postgres://…, which keeps what the workloads leave there. Defaults to a temporary
	// SQLite database for each run.
	Store string
	// Queue is memory:, or the address of a Redis server from whose lists the workers of no-op steps take them: WorkersIn is 1
	// at least then.
	Queue string
	// Sync is the durability of a commit: full (loss of power), normal (death of the process), or both in turns.
	Sync string
	// Output is text, json or markdown.
	Output string
	// State is the Redis server of `bench progress`. Defaults to none: the database answers.
	State string
	// Workers is how many steps run at once. Defaults to that of an App.
	Workers int
	// WorkersIn is in how many other processes the workers of no-op steps are, each with Workers steps at once; the process that
	// measures only conducts then. Defaults to none: they are in it.
	WorkersIn int
	// Nodes is how many servers share the Store. Start, chain, fanout and diamond run on each of them at once, and what they use
	// is measured; serve and takeover spread their load over them. Defaults to none but one, to 2 for takeover.
	Nodes int
	// KillEvery is how many seconds lie between two kills of `bench lessons`, whose workers are in WorkersIn processes with Workers steps
	// at once. Defaults to 10.
	KillEvery float64
	// Kills is how many there are at most. Defaults to no limit.
	Kills int
	// Bytes is the size of the parameter of an execution of no-op steps, and of what each step takes from the one before it and gives
	// on. Defaults to 0: steps without parameters and outputs.
	Bytes int
	// Schemas is a folder of STAC schemas. Defaults to the user's cache and the network.
	Schemas string
	// Format is the one output that stac measures, or all.
	Format string
	// Profile is the file for a CPU profile. Defaults to none.
	Profile string
}

// workloads are all workloads: their measuring functions and default sizes.
var workloads = []struct {
	name        string
	least, most int
	standard    int
	run         func(*bench) error // nil: no-op steps
}{
	{"start", 1, 1_000_000, 200, nil}, {"chain", 1, 1_000_000, 100, nil}, {"fanout", 1, 1_000_000, 10_000, nil}, {"diamond", 1, 1_000_000, 1_000, nil},
	{"stream", 1, 100_000_000, 1_000_000, (*bench).stream}, {"stac", 5, 100_000_000, 1_000_000, (*bench).stac}, {"serve", 1, 1_000_000, 20, (*bench).serve}, {"progress", 1, 100_000, 1_000, (*bench).progress},
	{"plugin", 1, 100_000, 10_000, (*bench).plugin},
	{"takeover", 1, 1_000, 100, (*bench).takeover}, {"runs", 1_000, 10_000_000, 1_000_000, (*bench).runs}, {"lessons", 1, 100_000, 1_000, (*bench).lessons},
	{"field", 1, 900_000, 100_000, (*bench).field}, {"tests", 1, 10_000_000, 5_000, (*bench).tests},
	{"replay", 1, 1_000_000, 10_000, (*bench).replay},
}

// Workloads are the names that Run knows.
func Workloads() []string {
	names := []string{"all"}
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// bench is one workload that is being measured.
type bench struct {
	Options
	ctx      context.Context
	out      io.Writer
	workload string
	n        int
	dir      string // temporary, for databases and items
	fsync    float64
	printed  bool      // the table's head
	all      []*result // of no-op steps
	member   bool      // one of several nodes that measure together
	workers  []*member // of WorkersIn
}

// row is the figures of one run: JSON for programs, a row below a head for people.
type row interface {
	head() string
	text() string
}

const memory = "memory:"

// redis is the address of the Redis server, "" for none.
func (o *Options) redis() string {
	if o.Queue == memory {
		return ""
	}
	return o.Queue
}

// shared reports whether several servers may use the database.
func (o *Options) shared() bool { return strings.HasPrefix(o.Store, "postgres") }

// Run measures a workload, or with "all" each of no-op steps, and prints the figures to out.
func Run(ctx context.Context, out io.Writer, workload string, o Options) error {
	if workload == Serve {
		return profiled(o.Profile, func() error { return work(ctx, &o) })
	}
	if workload == Pages {
		return lookOn(ctx, out, o.Store, o.N)
	}
	if workload == PlugIn {
		return plug()
	}
	if o.redis() != "" && workload != "lessons" {
		o.WorkersIn = max(o.WorkersIn, 1)
	}
	workload, member := strings.CutPrefix(workload, memberPrefix)
	var names []string
	for _, w := range workloads {
		if w.name != workload && (workload != "all" || w.run != nil) {
			continue
		}
		if w.run != nil && (o.Sync == "both" || o.Output == "markdown") {
			return stepwell.Invalid("", "--sync both and -o markdown are for start, chain, fanout, diamond and all")
		}
		if o.N != 0 && (o.N < w.least || o.N > w.most) || o.Runs < 1 || o.Runs > 1000 {
			return stepwell.Invalid("", "n must be %d to %d and runs 1 to 1,000", w.least, w.most)
		}
		if o.WorkersIn < 0 || o.WorkersIn > 64 || w.run != nil && w.name != "lessons" && o.WorkersIn > 0 {
			return stepwell.Invalid("", "--workers-in is 0 to 64, for start, chain, fanout, diamond, all and lessons")
		}
		if shares := w.name == "lessons" || w.name == "serve" || w.name == "takeover" || w.run == nil && o.WorkersIn == 0; o.Nodes < 0 || o.Nodes > 16 || o.Nodes > 0 && (!shares || !o.shared()) {
			return stepwell.Invalid("", "--nodes is 1 to 16, without --workers-in but for lessons, for start, chain, fanout, diamond, all, serve, takeover and lessons with --store postgres://…")
		}
		if o.Kills < 0 || o.KillEvery < 0 || o.KillEvery > 3600 || (o.KillEvery > 0 || o.Kills > 0) && w.name != "lessons" {
			return stepwell.Invalid("", "--kill-every is 0 to 3600 and --kills not below 0, for lessons")
		}
		if o.Bytes < 0 || o.Bytes > 1<<20 || o.Bytes > 0 && w.run != nil {
			return stepwell.Invalid("", "--bytes is 0 to 1 MiB, for start, chain, fanout, diamond and all")
		}
		names = append(names, w.name)
	}
	switch {
	case len(names) == 0:
		return stepwell.Invalid(strings.Join(Workloads(), ", "), "unknown workload %q", workload)
	case o.Queue != memory && !strings.HasPrefix(o.Queue, "redis"):
		return stepwell.Invalid("memory:, or redis://host:6379", "queue %q", o.Queue)
	}
	if _, rest, ok := strings.Cut(o.Store, ":"); o.Store != "" && (!ok || rest == "") {
		return stepwell.Invalid("use sqlite:PATH or postgres://USER@HOST/DATABASE", "store %q", o.Store)
	}
	return profiled(o.Profile, func() error { return runAll(ctx, out, names, member, o) })
}

func runAll(ctx context.Context, out io.Writer, names []string, member bool, o Options) (err error) {
	b := &bench{Options: o, ctx: ctx, out: out, member: member}
	if b.dir, err = os.MkdirTemp("", "stepwell-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	place := b.dir
	if file, err := app.DatabaseFile(o.Store); o.Store != "" && err == nil {
		place = filepath.Dir(file)
	}
	if b.fsync, err = fsyncTime(place); err != nil {
		return err
	}
	for _, w := range workloads {
		if !slices.Contains(names, w.name) {
			continue
		}
		measure := w.run
		if measure == nil {
			measure = (*bench).steps
		}
		b.workload, b.n = w.name, cmp.Or(o.N, w.standard)
		if err := measure(b); err != nil {
			return fmt.Errorf("bench %s: %w", w.name, err)
		}
	}
	if o.Output == "markdown" {
		return writeTable(out, b.all)
	}
	return nil
}

// print writes the figures of one run; those of a Markdown table come at the end, as medians.
func (b *bench) print(r row) error {
	if b.Output == "json" {
		return json.NewEncoder(b.out).Encode(r)
	}
	if b.Output == "markdown" {
		return nil
	}
	text := r.text() + "\n"
	if head := r.head(); head != "" && !b.printed {
		text = head + "\n" + text
	}
	b.printed = true
	_, err := io.WriteString(b.out, text)
	return err
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
