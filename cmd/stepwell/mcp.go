package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/mcpapi"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
)

func (p *program) newMCPCommand() *cobra.Command {
	c := &connection{makes: true, lasts: true}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve coding agents over the Model Context Protocol",
		Long: "Serve a coding agent over the Model Context Protocol, on standard input and output: look up actions, check, test\n" +
			"and crash pipelines, find out why executions failed; and, after a token has been given back, start, retry,\n" +
			"restart and cancel executions and store pipelines. Agents start it by themselves (docs/mcp.md).\n\n" +
			"It asks a server, as which the agent may do what the API key in STEPWELL_API_KEY may. If no server is named and\n" +
			"none answers at the usual address, it opens the database, and runs what is started until that has ended.",
		Example: "  stepwell mcp\n  stepwell mcp --server https://stepwell.example.org",
		Args:    arguments(0, 0, ""),
		RunE:    func(*cobra.Command, []string) error { return p.serveAgent(c) },
	}
	flags := cmd.Flags()
	p.settings.addDB(flags)
	flags.StringVar(&c.server, "server", "", "`URL` of a server to ask instead of the database; else STEPWELL_SERVER, else "+defaultServer+" if one answers there")
	c.flags = flags
	rehearse := &cobra.Command{Use: "rehearse", Short: "Serve one rehearsal", Hidden: true, Args: arguments(0, 0, ""), RunE: func(*cobra.Command, []string) error {
		actions := func(streams *scenario.Streams, clock *sim.Clock) (*action.Registry, error) {
			return p.testActions(streams, clock, []string{}, nil) // no host
		}
		return rehearsal.Stage{Actions: actions, Now: clock()}.Serve(context.Background(), p.in, p.out)
	}}
	p.settings.addDB(rehearse.Flags())
	cmd.AddCommand(rehearse)
	return cmd
}

// rehearse are the arguments with which this program serves a rehearsal, with the same settings.
func (p *program) rehearse() []string {
	args := []string{"mcp", "rehearse"}
	if dir := filepath.Dir(p.settings.file); dir != "." {
		args = append(args, "--data", dir)
	}
	return args
}

func (p *program) serveAgent(c *connection) error {
	o := p.settings.serving.MCP.Options(p.rehearse(), func(text string) { fmt.Fprintln(p.err, text) })
	o.Version, o.Log = manual.Version(), p.log()
	service := mcpapi.New(o)
	return p.calling(c, func(ctx context.Context, client *client.Client) error {
		if _, err := client.Me(ctx); err != nil { // a server that is not there is found out before the agent speaks
			return err
		}
		return service.Serve(ctx, p.in, p.out, client)
	})
}
