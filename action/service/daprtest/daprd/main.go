// Command daprd runs Dapr's sidecar, or with "placement" or "scheduler" as its first argument one of the services that its workflows
// need. It has only the components that tests use: names of apps are found in a SQLite file, so that nothing is announced on the
// network. Everything serves on loopback alone.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/dapr/components-contrib/nameresolution/sqlite"
	pubsubmemory "github.com/dapr/components-contrib/pubsub/in-memory"
	secretsfile "github.com/dapr/components-contrib/secretstores/local/file"
	statememory "github.com/dapr/components-contrib/state/in-memory"
	statesqlite "github.com/dapr/components-contrib/state/sqlite"
	placement "github.com/dapr/dapr/cmd/placement/app"
	scheduler "github.com/dapr/dapr/cmd/scheduler/app"
	"github.com/dapr/dapr/pkg/components/bindings"
	"github.com/dapr/dapr/pkg/components/configuration"
	"github.com/dapr/dapr/pkg/components/conversation"
	"github.com/dapr/dapr/pkg/components/crypto"
	"github.com/dapr/dapr/pkg/components/lock"
	middleware "github.com/dapr/dapr/pkg/components/middleware/http"
	names "github.com/dapr/dapr/pkg/components/nameresolution"
	"github.com/dapr/dapr/pkg/components/pubsub"
	"github.com/dapr/dapr/pkg/components/secretstores"
	"github.com/dapr/dapr/pkg/components/state"
	"github.com/dapr/dapr/pkg/healthz"
	"github.com/dapr/dapr/pkg/metrics"
	"github.com/dapr/dapr/pkg/modes"
	"github.com/dapr/dapr/pkg/runtime"
	"github.com/dapr/dapr/pkg/runtime/registry"
	"github.com/dapr/dapr/pkg/security"
	"github.com/dapr/kit/concurrency"
	"github.com/dapr/kit/logger"
)

const loopback = "127.0.0.1"

func main() {
	service := ""
	if len(os.Args) > 1 {
		service = os.Args[1]
	}
	switch service {
	case "placement", "scheduler":
		os.Args = append([]string{service}, os.Args[2:]...) // both read them
		if service == "placement" {
			placement.Run()
		} else {
			scheduler.Run()
		}
	default:
		sidecar()
	}
}

func sidecar() {
	c := &runtime.Config{Mode: string(modes.StandaloneMode), DaprAPIListenAddresses: loopback, DaprInternalGRPCListenAddress: loopback, AppChannelAddress: loopback,
		AppProtocol: "http", AppMaxConcurrency: -1, MaxRequestSize: 4 << 20, ReadBufferSize: 4 << 10, AllowedOrigins: "*", SchedulerStreams: 1, DaprGracefulShutdownSeconds: 1,
		AppHealthCheckPath: "/health", AppHealthProbeInterval: 5, AppHealthProbeTimeout: 500, AppHealthThreshold: 3, ProfilePort: "0"}
	file := flag.String("config", "", "configuration file")
	components := flag.String("components", "", "folder of component files")
	schedulerAt := flag.String("scheduler", "", "address of the scheduler")
	placementAt := flag.String("placement", "", "address of the placement service")
	level := flag.String("log-level", "warn", "log level")
	flag.StringVar(&c.AppID, "app-id", "", "name of the app")
	flag.StringVar(&c.ApplicationPort, "app-port", "", "port of the app")
	flag.StringVar(&c.DaprHTTPPort, "http-port", "", "port of the HTTP API")
	flag.StringVar(&c.DaprAPIGRPCPort, "grpc-port", "", "port of the gRPC API")
	flag.StringVar(&c.DaprInternalGRPCPort, "internal-port", "", "port for other sidecars")
	flag.Parse()
	c.Config = []string{*file}
	if *components != "" {
		c.ResourcesPath = []string{*components}
	}
	if *schedulerAt != "" {
		c.SchedulerAddress = []string{*schedulerAt}
	}
	if *placementAt != "" {
		c.ActorsService = "placement:" + *placementAt
	}

	l := logger.Options{OutputLevel: *level}
	if err := logger.ApplyOptionsToLoggers(&l); err != nil {
		log.Fatal(err)
	}
	c.Registry = registered()
	c.Healthz = healthz.New()
	c.Metrics = metrics.Options{Log: logger.NewLogger("metrics"), Healthz: c.Healthz}
	if err := run(c); err != nil {
		log.Fatal(err)
	}
}

// registered are the components that a sidecar can be given.
func registered() *registry.Options {
	resolvers, states, topics, secrets := names.NewRegistry(), state.NewRegistry(), pubsub.NewRegistry(), secretstores.NewRegistry()
	resolvers.Logger, states.Logger, topics.Logger, secrets.Logger = logger.NewLogger("names"), logger.NewLogger("state"), logger.NewLogger("pubsub"), logger.NewLogger("secrets")
	resolvers.RegisterComponent(sqlite.NewResolver, "sqlite")
	states.RegisterComponent(statememory.NewInMemoryStateStore, "in-memory")
	states.RegisterComponent(statesqlite.NewSQLiteStateStore, "sqlite")
	topics.RegisterComponent(pubsubmemory.New, "in-memory")
	secrets.RegisterComponent(secretsfile.NewLocalSecretStore, "local.file")
	return registry.NewOptions().WithNameResolutions(resolvers).WithSecretStores(secrets).WithStateStores(states).
		WithConfigurations(configuration.NewRegistry()).WithLocks(lock.NewRegistry()).WithPubSubs(topics).WithBindings(bindings.NewRegistry()).
		WithCryptoProviders(crypto.NewRegistry()).WithHTTPMiddlewares(middleware.NewRegistry()).WithConversations(conversation.NewRegistry())
}

func run(c *runtime.Config) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	provider, err := security.New(ctx, security.Options{ControlPlaneTrustDomain: "localhost", ControlPlaneNamespace: "default", AppID: c.AppID, Mode: modes.StandaloneMode, Healthz: c.Healthz})
	if err != nil {
		return err
	}
	return concurrency.NewRunnerManager(provider.Run, func(ctx context.Context) error {
		if c.Security, err = provider.Handler(ctx); err != nil {
			return err
		}
		r, err := runtime.FromConfig(ctx, c)
		if err != nil {
			return err
		}
		return r.Run(ctx)
	}).Run(ctx)
}
