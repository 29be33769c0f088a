package main

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/chaos"
)

func (p *program) newChaosCommand() *cobra.Command {
	o := chaos.Options{}
	minutes, pause := 1.0, 2.0
	var output *choice
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Disturb servers and workers, and check that nothing is lost",
		Long: `Run servers and workers of this program on a PostgreSQL database of its own, start executions of 105 steps all the
while, and kill, stop and freeze processes, cut their connections and stall the database, in an order that --seed
gives. At the end it asks the tables, with SQL of its own: has every execution completed once, with the right outputs, every step
once, no gap in any step log, and nothing left behind?

The database is disturbed as a whole: create one for this. It keeps the executions.

Exit codes: 0 all is as it should be, 1 something is not.`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Pause = time.Duration(pause * float64(time.Second))
			o.For = time.Duration(minutes * float64(time.Minute))
			if o.Seed == 0 {
				o.Seed = rand.Uint64N(1_000_000) + 1
			}
			o.Said = p.err
			r, err := chaos.Run(cmd.Context(), o)
			if r != nil {
				if output.value == "json" {
					_ = json.NewEncoder(p.out).Encode(r)
				} else {
					_, _ = p.out.Write([]byte(r.Text()))
				}
			}
			if err == nil && len(r.Wrong) > 0 {
				err = exitError(exitFailed)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.DB, "store", "", "`URL` of the database, such as postgres://user@host/chaos")
	f.StringVar(&o.Queue, "queue", "", "`URL` of a Redis server of its own, in whose lists the steps are offered; it is emptied and cut off too")
	f.Float64Var(&minutes, "minutes", 1, "for how long")
	f.IntVar(&o.Each, "each", 0, "instead of all faults by chance, each in turn meets so many executions, and the tables are asked after each")
	f.IntVar(&o.Executions, "executions", 0, "end earlier, after so many executions; 0: no limit")
	f.Uint64Var(&o.Seed, "seed", 0, "order of the faults; 0 draws one, which the result names")
	f.Float64Var(&pause, "pause", 2, "`seconds` between two faults, on average")
	f.IntVar(&o.Nodes, "nodes", 2, "servers")
	f.IntVar(&o.Workers, "workers", 1, "workers in processes of their own")
	f.IntVar(&o.InFlight, "in-flight", 20, "executions under way at once")
	f.StringSliceVar(&o.Faults, "faults", nil, "only these `faults`; all are "+strings.Join(chaos.Faults(), ", "))
	output = format(f, "text", "json")
	_ = cmd.MarkFlagRequired("store")
	return cmd
}
