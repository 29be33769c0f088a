//go:build !unix

package kubetest

import "os/exec"

func asGroup(*exec.Cmd) {}

func signalGroup(cmd *exec.Cmd, _ bool) {
	_ = cmd.Process.Kill() // it may have ended
}
