package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cost is what a module adds to a build and to the program.
type cost struct {
	module   string
	compiled time.Duration // processor time of the compiler and the linker
	bytes    int64         // code and data of its functions and variables
}

// smallest are the costs from which on a module has a row of its own.
const (
	smallestTime = time.Second
	smallestSize = 100_000
)

// dependencies prints a Markdown table of what each module costs: processor time by the graph that `go build -debug-actiongraph` has written
// with an empty cache, and bytes by the symbols of the program, which must not be stripped.
func dependencies(graph, program string, out io.Writer) error {
	modules, err := modulesOf("./cmd/stepwell")
	if err != nil {
		return err
	}
	costs := map[string]*cost{}
	of := func(pkg string) *cost {
		name := cmp.Or(modules[pkg], "Go's own library and runtime")
		if costs[name] == nil {
			costs[name] = &cost{module: name}
		}
		return costs[name]
	}
	if err := compiled(graph, of); err != nil {
		return err
	}
	if err := sized(program, of); err != nil {
		return err
	}
	rows, rest, all := []*cost{}, cost{module: "the others"}, cost{module: "all"}
	for _, c := range costs {
		all.compiled += c.compiled
		all.bytes += c.bytes
		if c.compiled >= smallestTime || c.bytes >= smallestSize {
			rows = append(rows, c)
			continue
		}
		rest.compiled += c.compiled
		rest.bytes += c.bytes
	}
	slices.SortFunc(rows, func(a, b *cost) int {
		return cmp.Or(cmp.Compare(b.compiled, a.compiled), cmp.Compare(a.module, b.module))
	})
	if _, err := fmt.Fprintln(out, "| module | CPU, s | code and data, MB |\n|---|---|---|"); err != nil {
		return err
	}
	for _, c := range append(rows, &rest, &all) {
		if _, err := fmt.Fprintf(out, "| %s | %.1f | %.2f |\n", c.module, c.compiled.Seconds(), float64(c.bytes)/1e6); err != nil {
			return err
		}
	}
	return nil
}

// modulesOf is the module of each package that a program is built of; those of Go itself have none.
func modulesOf(program string) (map[string]string, error) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{with .Module}}{{.Path}}{{end}}", program).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return nil, fmt.Errorf("go list: %w: %s", err, failed.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[pkg] = module
	}
	return modules, nil
}

// compiled adds the processor time of the actions of a build.
func compiled(graph string, of func(pkg string) *cost) error {
	text, err := os.ReadFile(graph)
	if err != nil {
		return err
	}
	var actions []struct {
		Mode    string
		Package string
		CmdUser time.Duration
		CmdSys  time.Duration
	}
	if err := json.Unmarshal(text, &actions); err != nil {
		return fmt.Errorf("%s: %w", graph, err)
	}
	for _, a := range actions {
		c := of(a.Package)
		if a.Mode == "link" || a.Mode == "link-install" {
			c = of("")
		}
		c.compiled += a.CmdUser + a.CmdSys
	}
	return nil
}

// sized adds the sizes of a program's symbols.
func sized(program string, of func(pkg string) *cost) error {
	nm := exec.Command("go", "tool", "nm", "-size", program)
	nm.Stderr = os.Stderr
	pipe, err := nm.StdoutPipe()
	if err != nil {
		return err
	}
	if err := nm.Start(); err != nil {
		return err
	}
	symbols := bufio.NewScanner(pipe)
	symbols.Buffer(nil, 1<<20)
	for symbols.Scan() {
		fields := strings.Fields(symbols.Text())
		if len(fields) < 4 || !strings.ContainsAny(fields[2], "TtRrDd") { // zeroed memory takes no bytes of the file
			continue
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || size < 0 {
			continue
		}
		of(packageOf(fields[3])).bytes += size
	}
	return cmp.Or(symbols.Err(), nm.Wait())
}

// packageOf is the package of a symbol: a.example/b/c.(*T).Method is of a.example/b/c. Types and strings of the runtime have none.
func packageOf(symbol string) string {
	symbol, _, _ = strings.Cut(symbol, "[") // type arguments name other packages
	slash := strings.LastIndex(symbol, "/") + 1
	name, _, found := strings.Cut(symbol[slash:], ".")
	if !found || strings.Contains(symbol, ":") {
		return ""
	}
	return strings.ReplaceAll(symbol[:slash]+name, "%2e", ".")
}
