//go:build !unix

package postgrestest

import (
	"os"
	"os/exec"
)

func give(string) error { return nil }

func drop(*exec.Cmd) {}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
