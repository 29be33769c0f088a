package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell/api/client"
)

func (p *program) newReadyCommand() *cobra.Command {
	c := &connection{}
	cmd := &cobra.Command{
		Use:   "ready",
		Short: "Check whether a server is ready",
		Long: "Check whether a server is ready to accept work. It needs no API key and serves as health check in containers without other programs.\n\n" +
			"Exit codes: 0 it does, 1 it does not or does not answer.",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return interrupted(ctx, p.callServer(ctx, c, func(ctx context.Context, client *client.Client) error {
				if err := client.Ready(ctx); err != nil {
					return err
				}
				_, err := fmt.Fprintln(p.out, "ready")
				return err
			}))
		},
	}
	cmd.Flags().StringVar(&c.server, "server", "", "`URL` of the server; else STEPWELL_SERVER, else "+defaultServer)
	return cmd
}
