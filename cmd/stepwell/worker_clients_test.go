package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stepwell/stepwell/tooltest"
)

// TestScriptsWithPython runs what needs Python: the worker of examples/worker-python at a server, and the conformance suite.
func TestScriptsWithPython(t *testing.T) {
	tooltest.Program(t, "the Python worker is not run", "python3")
	runScripts(t, "testdata/python", func(env *testscript.Env) error {
		env.Setenv("CLIENTS", filepath.Join(tooltest.Root(t), "clients"))
		return nil
	})
}

// TestScriptsWithTypeScript compiles the worker of examples/worker-typescript and runs it at a server.
func TestScriptsWithTypeScript(t *testing.T) {
	_, compiled := tooltest.TypeScript(t, "examples/worker-typescript")
	runScripts(t, "testdata/typescript", func(env *testscript.Env) error {
		env.Setenv("COMPILED", compiled)
		return nil
	})
}
