// Command helm is Helm as its own module makes it, for tests: without the plugins for the credentials of clouds.
package main

import (
	"errors"
	"log/slog"
	"os"

	helmcmd "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

func main() {
	kube.ManagedFieldsManager = "helm"
	cmd, err := helmcmd.NewRootCmd(os.Stdout, os.Args[1:], helmcmd.SetupLogging)
	if err != nil {
		slog.Warn("command failed", slog.Any("error", err))
		os.Exit(1)
	}
	if err := cmd.Execute(); err != nil {
		if coded, ok := errors.AsType[helmcmd.CommandError](err); ok {
			os.Exit(coded.ExitCode)
		}
		os.Exit(1)
	}
}
