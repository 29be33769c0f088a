package main

import (
	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/bench"
)

func (p *program) newBenchCommand() *cobra.Command {
	var o bench.Options
	sync := choice{"full", []string{"full", "normal", "both"}}
	formats := choice{"all", []string{"all", "ndjson.zst", "parquet"}}
	var output *choice
	cmd := &cobra.Command{
		Use:   "bench SCENARIO",
		Short: "Measure what this machine can do, durable commits included",
		Long: `Run no-op steps through the whole product and print what they cost.

  start     from the start call to the first step's code, n times one after the other
  chain     n steps of one execution, each after the one before; p50 and p99 are between two steps
  fanout    n parallel steps and a join; p50 and p99 are of a step from being queued to its end;
            with n of 10,000 and more, a one-step execution is submitted in the middle and its
            time is printed as "lone"
  diamond   n executions of A → (B, C) → D, 100 at a time; p50 and p99 are of whole executions
  all       the four above, each with its own n
  stream    n items of about 1 KB from an NDJSON file through two modifiers (one sets two members, one
            filters) into another; once without and once with checkpoints. Needs 2.5 KB of disk per item
  stac      n Landsat-like items of about 20 KB, made in memory, through stac.update and stac.validate (core and
            three extensions) to NDJSON with Zstandard, and a fifth of them to GeoParquet. The schemas come from
            --schema-dir, else from the cache and the network
  serve     a server under load for n seconds: 100 executions of two seconds at a time, each followed over a WebSocket, 50 other
            requests a second and 100 schedules of every five seconds; then 1,000 executions at once
  progress  a server on which 100 workers count an item of each of n projects, while 1,000 dashboards ask every two
            seconds how far one is; fails unless every count is found and every project has sent one event. With
            --state a Redis server answers the dashboards
  plugin    a chain of 1,000 steps and n steps at once, of the no-op of a plugin and of the program's own
  takeover  two servers of --store postgres://…, of which one is killed with n executions under way: the time until a
            step of theirs has ended on the other
  runs      lists of executions and sums of usage among n executions of lessons, which are stored in the database first;
            then 10,000 runs of a project's lessons are started at once
  lessons   runs of five steps for each of n lessons, which ask a stand-in for a service of models, in workers of which one is
            killed every ten seconds, while others look at the queue; fails unless every step has completed once, by the
            step logs and by what the service was asked. With --store postgres://…, --queue redis://… and --nodes too

  field     the columns and the graph of an execution of n steps, and one-step executions alone and beside a page that asks for both;
            then 1,000 pages follow another such execution, while its state is asked for
  tests     n tests of a pipeline of 11 rows, on all cores, compiling it included; then every single fault of the crash lab in
            a pipeline of 50 steps
  replay    n executions of 12 steps are run, and played with another definition, as pipelines backtest does; then 200 of them, and
            the step logs of all are folded, as doctor --upgrade does

With --store postgres://… no-op steps have a second line: processor time, bytes, connections and, with pg_stat_statements, statements.

fsync is the median time of this disk's own flush of 4 KiB, measured just before: no commit that
survives a loss of power can be faster. --sync both measures with and without it in turns, so that
other work on the machine slows both; -o markdown gives the medians as a table.`,
		Args:      arguments(1, 1, "WORKLOAD"),
		ValidArgs: bench.Workloads(),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "tests": // as test and lab
				p.moreGarbage(worldGarbage)
			case "replay": // as backtest
				p.moreGarbage(documentGarbage)
			}
			o.Sync, o.Output, o.Format = sync.value, output.value, formats.value
			return bench.Run(cmd.Context(), p.out, args[0], o)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.N, "n", 0, "size of the workload; defaults to 200, 100, 10000, 1000, 1000000, 1000000, 20, 1000, 10000, 100, 1000000, 1000, 100000, 5000 and 10000")
	f.IntVar(&o.Runs, "runs", 5, "how often")
	f.StringVar(&o.Store, "store", "", "database as sqlite:PATH or postgres://…, which keeps what is measured; defaults to a temporary one")
	f.StringVar(&o.Queue, "queue", "memory:", "queue; memory: is the embedded one, or the `URL` of a Redis server in whose lists workers in other processes take the steps")
	f.Var(&sync, "sync", "what a commit survives: full (loss of power), normal (death of the process), or both in turns")
	output = format(f, "text", "json", "markdown")
	f.StringVar(&o.State, "state", "", "progress: `URL` of a Redis server for the state")
	f.IntVar(&o.Workers, "workers", 0, "how many steps run at once; defaults to that of run, for lessons to 4 in each process")
	f.Float64Var(&o.KillEvery, "kill-every", 0, "lessons: `seconds` between two kills of a worker; defaults to 10")
	f.IntVar(&o.Kills, "kills", 0, "lessons: how many workers are killed at most; 0: no limit")
	f.IntVar(&o.WorkersIn, "workers-in", 0, "in how many other processes the steps of start, chain, fanout and diamond run, 0: in this one; or those of lessons, 0: in four")
	f.IntVar(&o.Nodes, "nodes", 0, "how many servers of --store postgres://… share the load of serve, takeover and lessons, or each run no-op steps at once")
	f.IntVar(&o.Bytes, "bytes", 0, "size of the data that no-op steps take from one another; 0: they take none")
	f.StringVar(&o.Schemas, "schema-dir", "", "stac: `folder` of schemas, laid out as <host>/<path> with an index.json")
	f.Var(&formats, "format", "stac: measure one output; parquet then gets all n items")
	f.StringVar(&o.Profile, "cpu-profile", "", "`file` for a CPU profile, which go tool pprof shows; those of workers in other processes are FILE.worker1 and on")
	return cmd
}
