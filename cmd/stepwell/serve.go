package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/mcpapi"
	"github.com/stepwell/stepwell/settings"
	"github.com/stepwell/stepwell/web"
)

// forcedPatience is how long a server that is forced to stop may still take.
const forcedPatience = 10 * time.Second

func (p *program) newServeCommand() *cobra.Command {
	var listen, advertise, state string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the API, and run schedules and executions",
		Long: "Serve the API and run schedules and executions until the process is stopped. It first resumes unfinished executions. docs/server.md has the settings.\n\n" +
			"The first Ctrl-C (or SIGTERM) starts no more work and gives running steps server.stop_seconds to finish; the second stops immediately. Nothing is lost in either case.\n\n" +
			"Exit codes: 0 graceful shutdown, 1 failure, 2 invalid settings, 130 stopped by a second signal.",
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := p.serving()
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("listen") {
				s.Server.Listen = listen
				if err := s.Server.Validate(); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("state") {
				s.State.URL = state
				if err := s.State.Validate(); err != nil {
					return err
				}
			}
			if cmd.Flags().Changed("advertise") {
				s.Server.Advertise = advertise
				if err := s.Server.Validate(); err != nil {
					return err
				}
			}
			return p.serve(s)
		},
	}
	p.settings.addRun(cmd.Flags())
	cmd.Flags().StringVar(&listen, "listen", settings.DefaultListen, "`address` to listen on")
	cmd.Flags().StringVar(&state, "state", "", "`URL` of a Redis server that has the progress of projects too, such as redis://127.0.0.1:6379")
	cmd.Flags().StringVar(&advertise, "advertise", "", "`URL` at which other servers on the same PostgreSQL database reach this one (default: the address that it listens on)")
	cmd.Flags().StringVar(&p.settings.queue, "queue", "", "`URL` of a Redis server in whose lists steps are offered to workers of any kind (docs/queues.md)")
	return cmd
}

// serve runs a server until it is told to stop.
func (p *program) serve(s *settings.Serving) error {
	o, err := p.serverOptions(s)
	if err != nil {
		return err
	}
	if o.Page, err = web.Handler(o.BasePath+"/", o.Version); err != nil {
		return err
	}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // to the end: a second interrupt must not kill what already ends
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := app.NewServer(ctx, o)
	if err != nil {
		return err
	}
	if err := p.banner(ctx, server, s); err != nil {
		return errors.Join(err, server.Close())
	}
	ran := make(chan error, 1)
	go func() { ran <- server.Run(ctx) }()
	forced, err := attend(server, o.Log, signals, ran, stop)
	if err = errors.Join(err, server.Close()); err == nil && forced {
		return exitError(exitInterrupted)
	}
	return err
}

// attend waits for the server's end. The first signal drains it, the second stops it; the log says so, as who reads it
// expects one form of line.
func attend(server *app.Server, log *slog.Logger, signals <-chan os.Signal, ran <-chan error, stop func()) (forced bool, err error) {
	for n := 0; ; {
		select {
		case err := <-ran:
			return n > 1, err
		case <-signals:
			switch n++; n {
			case 1:
				log.Warn("stopping: running steps may finish; once more stops them at once")
				server.Drain()
			case 2:
				log.Warn("stopping at once")
				stop()
				time.AfterFunc(forcedPatience, func() { os.Exit(exitInterrupted) }) // what does not heed its context
			default:
				os.Exit(exitInterrupted)
			}
		}
	}
}

// serverOptions are those of a server that go with the settings.
func (p *program) serverOptions(s *settings.Serving) (o app.ServerOptions, err error) {
	if o.Options, err = p.options(); err != nil {
		return o, err
	}
	p.confining(&o.Options, s)
	if p.settings.workers == 0 {
		o.Workers = -1
	}
	o.Log, o.Version = p.serverLog(&s.Log), manual.Version()
	if v, _ := p.env("SCHEDULER_POLL_INTERVAL"); v != "" {
		o.Log.Info("SCHEDULER_POLL_INTERVAL has no effect: nothing polls, schedules fire when it is time")
	}
	if s.MCP.Enabled {
		agents := s.MCP.Options(p.rehearse(), func(text string) { o.Log.Warn(text) })
		agents.Version, agents.Log = o.Version, o.Log
		o.Beside = &app.Beside{Path: mcpapi.Path, Make: mcpapi.New(agents).Handler}
	}
	err = s.AddToServer(&o, p.settings.queue, p.env)
	return o, err
}

// serverLog is JSON lines for machines; people at a terminal get text.
func (p *program) serverLog(l *settings.Log) *slog.Logger {
	o := &slog.HandlerOptions{Level: l.MinLevel(), ReplaceAttr: readable}
	text := l.Format == "text" || l.Format == "" && isTerminal(p.err)
	if text {
		return slog.New(slog.NewTextHandler(p.err, o))
	}
	return slog.New(slog.NewJSONHandler(p.err, o))
}

// readable writes durations with their unit, in JSON too.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		return slog.String(a.Key, a.Value.Duration().String())
	}
	return a
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// banner says where the server is, where its data are, and who may come in.
func (p *program) banner(ctx context.Context, server *app.Server, s *settings.Serving) error {
	data := app.DatabaseName(server.Store.Path())
	who := "with an API key or a token"
	switch open, err := server.Open(ctx); {
	case err != nil:
		return err
	case open:
		who = "open to this machine alone: there is no API key yet (`stepwell keys create --role admin NAME`)"
	case s.Server.Exposed():
		who += "; WITHOUT TLS: put a proxy in front, or set server.tls"
	}
	_, err := fmt.Fprintf(p.out, "stepwell serves %s\n  data     %s\n  access   %s\n  stop     Ctrl-C\n", server.URL(), data, who)
	return err
}
