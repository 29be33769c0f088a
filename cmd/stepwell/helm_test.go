package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/tooltest"
)

// TestScriptsWithHelm runs what needs the real helm and a Kubernetes control plane: kubeconfig in the working directory is that of an
// administrator, in a namespace of the script's own.
func TestScriptsWithHelm(t *testing.T) {
	helm := tooltest.Path(t, tooltest.Helm)
	cluster := kubetest.Start(t)
	runScripts(t, "testdata/helm", func(env *testscript.Env) error {
		bin := filepath.Join(env.WorkDir, "bin")
		env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
		env.Setenv("ROOT", tooltest.Root(t))
		return errors.Join(os.Mkdir(bin, 0o755), os.Symlink(helm, filepath.Join(bin, "helm")),
			os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), []byte(cluster.Kubeconfig(cluster.Namespace(t))), 0o600))
	})
}
