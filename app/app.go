// Package app is the one place that wires everything: Options in, a running Stepwell out.
//
// New opens the store and builds queue, conductor and workers; Run runs the loops until its context
// ends (at once) or Drain has let the running steps finish; Close lets go of the store. The embedded
// form is all in one process; nothing else has to be installed.
package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/ai"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/action/helm"
	"github.com/stepwell/stepwell/action/httpcall"
	"github.com/stepwell/stepwell/action/kube"
	"github.com/stepwell/stepwell/action/media"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/desk"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/sandbox"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/upload"
	"github.com/stepwell/stepwell/worker"
)

// Options configure an App.
type Options struct {
	// Uploads bound the media of lessons.
	Uploads Uploads
	// Data is the data directory: database, blobs, streams and keys. It is created when it does not exist. Not used when
	// DB is given. Defaults to DefaultData.
	Data string
	// DB is a database: a file, or a URL such as sqlite:PATH. Files that belong to it are in its directory, or in Data where it
	// is no file. Defaults to the one in Data.
	DB string
	// Synchronous is how durable a commit is: "full" survives power loss, "normal" a crash of the
	// process only. Defaults to "full".
	Synchronous string
	// Workers is how many steps run at once. Defaults to four for each processor, at least 8. Of a Server, negative: steps run in
	// workers elsewhere, here only what cannot leave it (streams without SharedStreams, and actions that render templates themselves).
	Workers int
	// HTTP limits the addresses and the volume of util.http. Defaults to public addresses only.
	HTTP outbound.Options
	// Git says which repositories external.git.run reaches, and how much of them. Defaults to https on public addresses.
	Git git.Options
	// Kubernetes are the clusters that steps work on. Defaults to none.
	Kubernetes kube.Options
	// Services says where the services of the internal.* actions are. Defaults to nowhere.
	Services service.Options
	// Checkpoints is the directory where item streams keep how far they have come, and their failure records.
	// Defaults to DB with "-streams" behind it.
	Checkpoints string
	// SharedStreams is where a stream's files go as often as it makes them durable, so that another process of the database goes
	// on with it: a folder that all of them mount, or s3://bucket/prefix. Defaults to none: streams stay on their machine, and
	// begin anew on another.
	SharedStreams string
	// S3 configures access to s3:// paths. Defaults to the environment (AWS_*).
	S3 files.S3Options
	// Schemas says where STAC schemas are. Defaults to the network, with a cache in the user's cache directory.
	Schemas schema.Options
	// Modules adds stream modules of the embedding program. Defaults to none.
	Modules []stream.Module
	// Replace gives the stream modules that take the place of all of them, in tests of pipelines. Defaults to leaving them.
	Replace func([]stream.Module) []stream.Module
	// Register adds actions of the embedding program. Defaults to none.
	Register func(*action.Registry) error
	// Observe is told of every commit; see conductor.Options. Defaults to nothing.
	Observe func(*conductor.Update)
	// Lines sees the steps' log lines as they are written. Defaults to nothing.
	Lines func(store.LogLine)
	// Progress sees the steps' own progress. Defaults to nothing.
	Progress func(run int64, idx int32, p worker.Progress)
	// MasterKey locates the key that seals secrets. Defaults to the file DB + ".key", which is created when it is
	// missing and needed: by a server always, otherwise when there are secrets.
	MasterKey secret.KeyOptions
	// SecretSources are asked in order for secrets that the vault does not have. Defaults to none.
	SecretSources []service.SecretSource
	// Logged is told of executions whose log lines have become readable; see conductor.Options. Defaults to nothing.
	Logged func(executions []int64)
	// Outbox says what of executions is passed on; see conductor.Options. Defaults to nothing.
	Outbox conductor.Outbox
	// Limits of the conductor. A Server's Patience defaults to as long as it runs.
	conductor.Limits
	// Queues are limits of steps by the name of their queue. Steps of executions with a lesson that name no queue are in the queue
	// LessonQueue if it is here. Defaults to none.
	Queues map[string]queue.Limits
	// Prices are the costs of calls by action, failed calls included. Defaults to no costs.
	Prices map[string]Price
	// CallbackURL is where something outside can end the step that awaits the key. Defaults to there being no such
	// address.
	CallbackURL func(key string) string
	// Tape records the requests and the commands of steps, or answers in their place if Replay is set: those of HTTP's Record and
	// Replay. Defaults to neither.
	Tape   *action.Tape
	Replay bool
	// Grace is how long a handler may go on after its context ended. Defaults to 15 seconds.
	Grace time.Duration
	// Memory keeps everything in memory, as long as the process lives; files of steps and keys are in Data all the same.
	Memory bool
	// Now is the clock of all times that are recorded or decide what is done. Defaults to time.Now.
	Now func() time.Time
	// Log takes Stepwell's own messages. Defaults to slog.Default.
	Log *slog.Logger

	// Exec confines the commands of steps, on a server. Defaults to the defaults of its fields.
	Exec Exec
	// Files are folders in which steps may read and write files by other actions than commands, on a server on which not
	// everybody is an admin. Defaults to the working directory.
	Files []string
	// Private are further server files that steps cannot access: settings, TLS keys. Defaults to none.
	Private []string

	allow    func(author *definition.Author, action string) error // the actions that steps may use; nil: all
	touch    func(path string) error                              // CodeDenied for a file that steps may not touch; nil: all
	sandbox  func(context.Context) (*sandbox.Sandbox, error)      // confines a command; nil: no confinement
	backup   func(ctx context.Context, folder string, keep int, progress func(done, total int)) (*builtin.Copied, error)
	streams  *files.Shared
	secrets  *lateGuard                            // of the App that the actions are for
	clusters *kube.Clusters                        // of Kubernetes, made with the actions
	kube     *kubernetes                           // what watches jobs in them
	readOnly bool                                  // another process runs the executions of the database
	serves   bool                                  // it is a server's, which has keys of its own to keep
	wrap     func(conductor.Store) conductor.Store // measures the store; nil: as it is
	desk     *desk.Desk                            // hands steps out to workers in other processes too; nil: nobody does

	advertise func(context.Context) (address string, err error) // of a node; nil: none
	reads     bool                                              // it may be for reading alone: without a master key, changes are refused
	alone     bool                                              // CodeConflict where other processes run executions
}

// App is a Stepwell in this process.
type App struct {
	Store     Store
	Actions   *action.Registry
	Conductor *conductor.Conductor
	// Secrets has the vault, and redacts its values in recorded data. Keyring seals them.
	Secrets *secret.Guard
	Keyring *secret.Keyring

	keyless error // no master key is named, and there are secrets; nil: all is well

	node   *node  // nil: no other process runs the executions of the database
	shares string // identity under which streams are handed over, "": they stay on this machine
	kube   *kubernetes
	stored *storedClusters     // created clusters
	line   func(store.LogLine) // writes a line of a step's log
	// streams says where streams keep their files.
	streams stream.Options
	places  *files.Places

	pool     *worker.Pool
	queue    stepQueue
	client   *outbound.Client
	services *service.Client // nil: nothing outside of steps calls services
	media    *upload.Cache
	now      func() time.Time
	log      *slog.Logger
}

// Actions returns the registry of all built-in actions and those of the options.
func Actions(o Options) (*action.Registry, error) {
	r, _, err := actions(&o)
	return r, err
}

// actions also returns the steps' HTTP client, which the caller closes.
func actions(o *Options) (*action.Registry, *outbound.Client, error) {
	r := &action.Registry{}
	if o.Tape != nil {
		o.Tape.Secret = outbound.SecretName
		for _, limits := range []*outbound.Options{&o.HTTP, &o.Services.Limits} {
			limits.Tape, limits.Record, limits.Replay = o.Tape, "", ""
			if o.Replay {
				limits.Replay = o.Tape.Dir
			} else {
				limits.Record = o.Tape.Dir
			}
		}
	}
	if o.Services.Now == nil {
		o.Services.Now = o.Now
	}
	client, err := outbound.New(o.HTTP)
	if err != nil {
		return nil, nil, err
	}
	if o.clusters, err = o.buildClusters(client); err != nil {
		return nil, nil, err
	}
	commands := builtin.Options{Now: o.Now, Sandbox: o.sandbox, PassEnv: o.Exec.PassEnv, Backup: o.backup, Tape: o.Tape, Replay: o.Replay}
	for _, add := range []func() error{
		func() error { return builtin.Register(r, commands) },
		func() error { return httpcall.Register(r, client) },
		func() error { return ai.Register(r, client) },
		func() error { return git.Register(r, client, o.gitOptions(commands)) },
		func() error { return helm.Register(r, client, helm.Options{Clusters: o.clusters}) },
		func() error { return o.kube.register(r) },
		func() error { return media.Register(r, media.Find()) },
		func() error { return service.Register(r, o.Services) },
		func() error {
			return dapr.RegisterWorkflows(r, dapr.WorkflowOptions{Port: o.Services.DaprPort, Token: o.Services.DaprToken, Limits: o.Services.Limits, Now: o.Now})
		},
		func() error { return o.shareStreams(r) },
		func() error { return streams(r, client, *o) },
	} {
		if err := add(); err != nil {
			return nil, nil, err
		}
	}
	if o.Register != nil {
		if err := o.Register(r); err != nil {
			return nil, nil, err
		}
	}
	return r, client, nil
}

// New opens the database, which no other process may be using for running executions (CodeConflict), unless it is one that several
// share, and builds everything else.
func New(ctx context.Context, o Options) (_ *App, err error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	hidden := secret.NewRedactor()
	o.Log = slog.New(secret.LogHandler(o.Log.Handler(), hidden))
	a := &App{queue: &queue.Memory{}, now: o.Now, log: o.Log}
	if o.desk != nil {
		a.queue = o.desk
	}
	for name, limits := range o.Queues {
		a.queue.Limit(name, limits)
	}
	o.secrets, o.backup = &lateGuard{}, a.backup
	if a.Actions, a.client, err = actions(&o); err != nil {
		return nil, err
	}
	a.services, a.streams, a.places = o.kube.services, o.streamFiles(), o.places(a.client)
	keys, err := o.keyring()
	if err != nil {
		return nil, err
	}
	a.Store, err = o.openDatabase(ctx, o.checkKey(keys))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			a.node.close()
			err = errors.Join(err, a.Store.Close())
		}
	}()
	if a.shares, err = o.claimStreams(ctx, a.Store); err != nil {
		return nil, err
	}
	if err := a.join(ctx, &o); err != nil {
		return nil, err
	}
	if err := a.openSecrets(ctx, o, keys, hidden); err != nil {
		return nil, err
	}
	revoke, expect, err := a.outlived(ctx, o.desk)
	if err != nil {
		return nil, err
	}
	outage := store.NewOutage(nil)
	var written conductor.Store = a.Store
	if o.wrap != nil {
		written = o.wrap(written)
	}
	price := pricing(o.Prices, a.Actions, o.Now, o.Log)
	conducting := conductor.Options{Store: written, Queue: a.queue, Blobs: a.Store.Blobs(), Catalog: a.Actions, Secrets: a.Secrets,
		Revoke: revoke, Cancels: func(name string) bool { return a.pool.Cancels(name) }, Cancel: func(w store.OutsideWork) { a.pool.Cancel(w) }, Observe: o.Observe, Lines: o.Logged, Outbox: o.Outbox, Limits: o.Limits,
		Outage: outage, Price: price, LessonQueue: o.lessonQueue(), Expect: expect, Now: o.Now, Log: o.Log}
	a.node.conduct(&conducting)
	if a.Conductor, err = conductor.New(ctx, conducting); err != nil {
		return nil, err
	}
	if err := a.node.route(ctx); err != nil {
		return nil, err
	}
	lines := a.Conductor.Line
	if o.Lines != nil {
		lines = func(l store.LogLine) { o.Lines(l); a.Conductor.Line(l) }
	}
	a.line, a.kube = lines, o.kube
	a.kube.attach(a.Store)
	if a.stored, err = openClusters(ctx, a); err != nil {
		return nil, err
	}
	a.media = upload.NewCache(upload.CacheOptions{Blobs: a.Store.Blobs(), Dir: o.beside() + "-media", MaxBytes: o.Uploads.CacheBytes})
	running := worker.Options{Media: a.media.Local, Queue: a.queue, Actions: a.Actions, Reporter: a.Conductor, Records: a.Store, Blobs: a.Store.Blobs(), Outage: outage, Secrets: a.Secrets,
		Lines: lines, Progress: o.Progress, Name: workerName(), Allow: o.allow, Touch: o.touch, Price: price, CallbackURL: o.CallbackURL, Concurrency: o.Workers, Grace: o.Grace, Orphans: a.node.orphans(), Now: o.Now, Log: o.Log}
	if o.desk != nil {
		running.CancelElsewhere = o.desk.Cancel
	}
	if a.pool, err = worker.New(running); err != nil {
		return nil, err
	}
	return a, nil
}

func workerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "local"
	}
	return host + "-" + strconv.Itoa(os.Getpid())
}

// requestInterval is how often the database is asked whether another process has changed it; SQLite
// has no other notification between processes.
const requestInterval = 200 * time.Millisecond

// watchPause is how long a watch that has failed waits before it begins anew.
const watchPause = 5 * time.Second

// Run runs the loops until ctx ends or a drain is complete. When ctx ends, running handlers are
// stopped; their steps are dispatched again when the execution is recovered. An error means that the
// store has failed for good: nothing that was reported as done is lost. It is called once.
func (a *App) Run(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var failed firstError
	broken := func(err error) { failed.set(err); fail(err) } // without a store nothing may go on
	noding := a.node.start(newLoopGroup(context.WithoutCancel(ctx), broken))
	conducting := newLoopGroup(context.WithoutCancel(ctx), broken)
	conducting.start("conductor", a.Conductor.Run)
	watching := newLoopGroup(ctx, broken)
	watching.start("requests", a.watch)
	a.watchJobs(watching)
	err := a.pool.Run(ctx)
	watching.end()
	conducting.end()
	noding.end()
	return failed.or(err)
}

// Idle waits until no execution that this process holds runs: all have ended or are paused. tell is called before each
// that is waited for.
func (a *App) Idle(ctx context.Context, tell func(id string)) error {
	for {
		waited := false
		for _, id := range a.Conductor.Active() {
			x, err := a.Store.Execution(ctx, id)
			if err != nil || x.Status == stepwell.ExecutionPaused {
				continue
			}
			waited = true
			tell(id)
			if _, err := a.Conductor.Wait(ctx, id); err != nil {
				return err
			}
		}
		if !waited || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// watch is the loop that carries out requests of other processes. While the database cannot be watched, they wait in
// it.
func (a *App) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.Store.Watch(ctx, requestInterval, func() { a.Conductor.TakeRequests(ctx) }); err != nil {
			a.log.Warn("requests of other processes are not seen for now", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
	return nil
}

// backup implements util.backup; the store is open by the time anything runs.
func (a *App) backup(ctx context.Context, folder string, keep int, progress func(done, total int)) (*builtin.Copied, error) {
	made, err := a.Store.BackupInto(ctx, folder, keep, progress)
	if err != nil {
		return nil, err
	}
	return (*builtin.Copied)(made), nil
}

// Drain starts no more steps and lets the running ones finish; Run returns then. It returns at once.
func (a *App) Drain() { a.pool.Drain() }

// Now is the clock of all times that are recorded: this machine's, or that of the database where several processes share it.
func (a *App) Now() time.Time { return a.now() }

// Close lets go of the store. Call it after Run has returned.
func (a *App) Close() error {
	a.node.close()
	a.queue.Close()
	a.client.Close()
	if a.services != nil {
		a.services.Close()
	}
	return errors.Join(a.media.Close(), a.Store.Close())
}

// LessonQueue is the queue of steps of executions with a lesson, where the settings have it (Options.Queues).
const LessonQueue = "pipelines"

func (o *Options) lessonQueue() string {
	if _, named := o.Queues[LessonQueue]; named {
		return LessonQueue
	}
	return ""
}
