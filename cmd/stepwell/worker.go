package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/manual"
	"github.com/stepwell/stepwell/queue/redisq"
	"github.com/stepwell/stepwell/view"
	"github.com/stepwell/stepwell/worker/link"
)

// workerFlags say which servers a worker works for, and what it takes.
type workerFlags struct {
	servers, queues []string
	token, name     string
	redis           string
	concurrency     int
}

func (p *program) newWorkerCommand() *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run steps of a server in this process",
		Long: "Run steps of a server in this process: it joins the server, or the first of several that lets it in, and runs what it\n" +
			"is given with all built-in actions but backups, which stay with the server, and streams only if streams.shared in the\n" +
			"settings is the place that the server has. Steps that run commands or touch files do so on this machine, as this\n" +
			"process's user: the server's exec and files settings do not hold here.\n" +
			"A step's outcome is kept and offered until the server has stored it, also over the server's restart; when a\n" +
			"server is permanently gone, to the next one.\n\n" +
			"The API key, of the role worker, is that of STEPWELL_API_KEY or of --token-file.\n\n" +
			"The first Ctrl-C (or SIGTERM) begins no more steps, gives back those that have not begun, and lets running ones\n" +
			"finish; the second ends at once, and the steps continue elsewhere.",
		Args: arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error { return p.work(f) },
	}
	g := cmd.Flags()
	p.settings.addDB(g)
	for _, name := range []string{"data", "db"} {
		_ = g.MarkHidden(name) // --data says where the settings file is
	}
	g.StringSliceVar(&f.servers, "server", nil, "`URL` of the server, or of several; else STEPWELL_SERVER, else "+defaultServer)
	g.StringVar(&f.token, "token-file", "", "`file` with the API key; else STEPWELL_API_KEY")
	g.StringSliceVar(&f.queues, "queues", nil, "only steps of these `queues`; defaults to all, with --redis to the default queue")
	g.StringVar(&f.redis, "redis", "", "`URL` of the Redis server in whose lists the server offers steps: take them from there too")
	g.IntVar(&f.concurrency, "concurrency", 0, "how many steps run at once; defaults to four for each processor, at least 8")
	g.StringVar(&f.name, "name", "", "unique `name` of this worker; defaults to the machine's and a number")
	cmd.AddCommand(p.newWorkerConformanceCommand())
	return cmd
}

// options are those of the worker.
func (f *workerFlags) options(p *program) (o link.Options, err error) {
	named, _ := p.env("STEPWELL_SERVER")
	if f.servers = slices.DeleteFunc(f.servers, func(s string) bool { return s == "" }); len(f.servers) == 0 {
		f.servers = []string{cmp.Or(named, defaultServer)}
	}
	for _, s := range f.servers {
		if u, err := url.Parse(s); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return o, stepwell.Invalid("write it like https://stepwell.example.org", "--server: %q is not an address of a server", s)
		}
	}
	if f.concurrency < 0 || f.concurrency > 10_000 {
		return o, stepwell.Invalid("give a number from 1 to 10000", "concurrency: %d is out of range", f.concurrency)
	}
	token, _ := p.env("STEPWELL_API_KEY")
	if f.token != "" {
		if token, err = p.readText(f.token); err != nil {
			return o, err
		}
	}
	o = link.Options{Nodes: f.servers, Name: cmp.Or(f.name, workerName()), Stream: true, Header: http.Header{}, Version: manual.Version(), Queues: f.queues, Concurrency: f.concurrency}
	if token = strings.TrimSpace(token); token != "" {
		o.Header.Set("Authorization", "Bearer "+token)
	}
	return o, nil
}

// openLists connects to the Redis server; nil: none is named.
func (f *workerFlags) openLists(log *slog.Logger) (*redisq.Lists, error) {
	if f.redis == "" {
		return nil, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return app.OpenLists(ctx, f.redis, log)
}

func workerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "worker"
	}
	return host + "-" + strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(time.Now().Unix()%1e6, 36) // in containers the number of the process is always the same
}

// work runs a worker until it is told to stop, or is drained by its server.
func (p *program) work(f *workerFlags) (err error) {
	o, err := f.options(p)
	if err != nil {
		return err
	}
	o.Log = p.serverLog(&p.settings.serving.Log)
	slog.SetDefault(o.Log)
	outer, err := p.options()
	if err != nil {
		return err
	}
	own, err := app.OpenWorker(outer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	o.Actions, o.Streams = own.Actions, own.Streams
	lists, err := f.openLists(o.Log)
	if err != nil {
		return err
	}
	if lists != nil {
		defer lists.Close()
		o.Lists = lists
	}
	app.KeepHeadroom()
	w, err := link.New(o)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // to the end: a second interrupt must not kill what already ends
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	joining, endJoin := context.WithCancel(ctx)
	defer endJoin()
	ran := make(chan error, 1)
	go func() {
		err := w.Join(joining)
		switch {
		case err == nil:
			err = w.Run(ctx)
		case joining.Err() != nil:
			err = nil // told to stop before it has joined: it holds nothing
		}
		ran <- err
	}()
	for n := 0; ; {
		select {
		case err := <-ran:
			if ctx.Err() != nil {
				return exitError(exitInterrupted)
			}
			return err
		case <-signals:
			switch n++; n {
			case 1:
				o.Log.Warn("stopping: running steps may finish; once more stops them at once")
				endJoin()
				w.Drain()
			case 2:
				o.Log.Warn("stopping at once")
				stop()
				time.AfterFunc(2*forcedPatience, func() { os.Exit(exitInterrupted) }) // what does not heed its context
			default:
				os.Exit(exitInterrupted)
			}
		}
	}
}

func (p *program) newPluginsCommand() *cobra.Command {
	r := &resource{path: "plugins", items: "plugins", what: "plugin", whole: true, served: true,
		columns: []view.Column{{"NAME", "name"}, {"STATE", "state"}, {"VERSION", "version"}, {"PID", "pid"}, {"RUNS AT ONCE", "concurrency"}, {"HELD", "held"}, {"RESTARTS", "restarts"}, {"ACTIONS", "actions"}, {"ERROR", "error"}}}
	return p.servedGroup("plugins", "Show plugins", "Show the plugins of a server: programs that bring actions, started and watched by it (docs/plugins.md).",
		p.listing(r, "List the plugins of the server that is asked"))
}

func (p *program) newClustersCommand() *cobra.Command {
	r := &resource{path: "clusters", items: "clusters", what: "cluster", whole: true,
		columns: []view.Column{{"ID", "id"}, {"DEFAULT", "default"}, {"STATE", "state"}, {"VERSION", "version"}, {"KIND", "kind"}, {"SERVER", "server"}, {"NAMESPACE", "namespace"}, {"ERROR", "error"}}}
	return p.group("clusters", []string{"cluster"}, "Manage Kubernetes clusters", "Manage Kubernetes clusters on which steps run jobs: those of the settings, and those created here (docs/kubernetes.md).",
		p.listing(r, "List the clusters and their state"), p.showing(r, "Show a cluster and its state"),
		p.sending("create ID", "Create a cluster from a kubeconfig, which is stored encrypted", "POST", func([]string) string { return pathTo("clusters") }, &clusterFlags{}, "id", "Created cluster %s."),
		p.deleting(r, "Delete a created cluster"))
}

// clusterFlags ask for a cluster.
type clusterFlags struct {
	id, file, context, namespace string
	namespaces                   []string
}

func (c *clusterFlags) add(f *pflag.FlagSet) {
	f.StringVar(&c.file, "kubeconfig", "-", "`file` with the kubeconfig, as kubectl config view --flatten --minify writes it; - for the input")
	f.StringVar(&c.context, "context", "", "`context` of the kubeconfig; its current one without this")
	f.StringVar(&c.namespace, "namespace", "", "`namespace` of steps that name none; that of the context without this")
	f.StringSliceVar(&c.namespaces, "namespaces", nil, "further `namespaces` that steps may name, such as team-*")
}

func (c *clusterFlags) take(args []string) { c.id = args[0] }

func (c *clusterFlags) body(p *program) (object, error) {
	text, err := p.readText(c.file)
	o := object{"id": c.id, "kubeconfig": text, "namespaces": append([]string{}, c.namespaces...)}
	put(o, "context", c.context)
	put(o, "namespace", c.namespace)
	return o, err
}

func (p *program) newWorkersCommand() *cobra.Command {
	r := &resource{path: "workers", items: "workers", what: "worker", whole: true, served: true,
		columns: []view.Column{{"NAME", "name"}, {"VERSION", "version"}, {"QUEUES", "queues"}, {"RUNS AT ONCE", "concurrency"}, {"HELD", "held"}, {"SEEN", "seen_at"}, {"SECRETS", "secrets"}, {"DRAINING", "draining"}}}
	return p.servedGroup("workers", "List and drain workers", "List and drain workers: processes that run steps of a server (`stepwell worker`, or of your own; docs/workers.md).",
		p.listing(r, "List the workers, the server's own first"),
		p.verbOver(&connection{served: true}, "drain NAME", "Let a worker finish its steps and exit", "POST", func(name string) string { return r.at(name, "drain") }, "Worker %s gets no more steps, and ends when it has finished what it holds."))
}
