// Command daprd runs Dapr's sidecar with the one component that the tests need: names of apps are found in a SQLite file, so that
// nothing is announced on the network. It serves on loopback alone.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/dapr/components-contrib/nameresolution/sqlite"
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
	c := &runtime.Config{Mode: string(modes.StandaloneMode), DaprAPIListenAddresses: loopback, DaprInternalGRPCListenAddress: loopback, AppChannelAddress: loopback,
		AppProtocol: "http", AppMaxConcurrency: -1, MaxRequestSize: 4 << 20, ReadBufferSize: 4 << 10, AllowedOrigins: "*", SchedulerStreams: 1, DaprGracefulShutdownSeconds: 1,
		AppHealthCheckPath: "/health", AppHealthProbeInterval: 5, AppHealthProbeTimeout: 500, AppHealthThreshold: 3, ProfilePort: "0"}
	file := flag.String("config", "", "configuration file")
	flag.StringVar(&c.AppID, "app-id", "", "name of the app")
	flag.StringVar(&c.ApplicationPort, "app-port", "", "port of the app")
	flag.StringVar(&c.DaprHTTPPort, "http-port", "", "port of the HTTP API")
	flag.StringVar(&c.DaprAPIGRPCPort, "grpc-port", "", "port of the gRPC API")
	flag.StringVar(&c.DaprInternalGRPCPort, "internal-port", "", "port for other sidecars")
	flag.Parse()
	c.Config = []string{*file}

	l := logger.Options{OutputLevel: "warn"}
	if err := logger.ApplyOptionsToLoggers(&l); err != nil {
		log.Fatal(err)
	}
	resolvers := names.NewRegistry()
	resolvers.Logger = logger.NewLogger("names")
	resolvers.RegisterComponent(sqlite.NewResolver, "sqlite")
	c.Registry = registry.NewOptions().WithNameResolutions(resolvers).WithSecretStores(secretstores.NewRegistry()).WithStateStores(state.NewRegistry()).
		WithConfigurations(configuration.NewRegistry()).WithLocks(lock.NewRegistry()).WithPubSubs(pubsub.NewRegistry()).WithBindings(bindings.NewRegistry()).
		WithCryptoProviders(crypto.NewRegistry()).WithHTTPMiddlewares(middleware.NewRegistry()).WithConversations(conversation.NewRegistry())
	c.Healthz = healthz.New()
	c.Metrics = metrics.Options{Log: logger.NewLogger("metrics"), Healthz: c.Healthz}
	if err := run(c); err != nil {
		log.Fatal(err)
	}
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
