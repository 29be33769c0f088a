// Command controlplane runs a part of Kubernetes' control plane: etcd, apiserver or controllers, named by its first argument; the others
// are the flags of that part. It ends with its standard input, so that a test that dies leaves nothing behind. The API server
// serves on the listener that it inherits as file 3, which its parent keeps: it has the same address when it is started again.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	_ "time/tzdata" // for cron jobs
	_ "unsafe"      // for gitVersion

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

// gitVersion is what the API server says its version is. Kubernetes' own builds set it as they link; charts and tools compare it.
//
//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

func main() {
	gitVersion = "v1.36.3" // as in go.mod
	if err := version.SetDynamicVersion(gitVersion); err != nil {
		fail(err)
	}
	if len(os.Args) < 2 {
		fail(fmt.Errorf("controlplane etcd|apiserver|controllers [flags]"))
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent has ended
		os.Exit(1)
	}()
	part, args := os.Args[1], os.Args[2:]
	os.Args = os.Args[1:] // what follows reads its own flags
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		if err := serve(args); err != nil {
			fail(err)
		}
	case "controllers":
		os.Exit(cli.Run(controllers.NewControllerManagerCommand()))
	default:
		fail(fmt.Errorf("the control plane has no part %q", part))
	}
}

// serve is what kube-apiserver's own command does, but for the listener.
func serve(args []string) error {
	logs.InitLogs()
	defer logs.FlushLogs()
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	s := options.NewServerRunOptions()
	flags := pflag.NewFlagSet("apiserver", pflag.ContinueOnError)
	for _, f := range s.Flags().FlagSets {
		flags.AddFlagSet(f)
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	s.SecureServing.Listener, s.SecureServing.BindPort = l, l.Addr().(*net.TCPAddr).Port
	if err := s.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	ctx := genericapiserver.SetupSignalContext()
	completed, err := s.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	return apiserver.Run(ctx, completed)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
