package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
)

// memberPrefix begins the workload of a process that is one of Options.Nodes. It waits before the workload and behind it until all are
// there, and prints its figures.
const memberPrefix = "node-"

// await tells the starting process that this one is ready, and waits for the others.
func await() error {
	if _, err := fmt.Println(); err != nil {
		return err
	}
	_, err := os.Stdin.Read(make([]byte, 1))
	return err
}

// member is a process of this program that takes part in a measurement. It ends with its input.
type member struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startMember starts `stepwell bench` with args.
func startMember(args ...string) (*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m := &member{cmd: exec.Command(self, append([]string{"bench"}, args...)...)}
	m.cmd.Stderr = os.Stderr
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.out = bufio.NewReader(out)
	return m, m.cmd.Start()
}

// end closes the input of a member and waits for its end.
func (m *member) end() error { return errors.Join(m.in.Close(), m.cmd.Wait()) }

// ready waits for await.
func (m *member) ready() error {
	_, err := m.out.ReadByte()
	if err != nil {
		err = fmt.Errorf("a node is not ready: %w", err)
	}
	return err
}

// goOn ends await.
func (m *member) goOn() error {
	_, err := m.in.Write([]byte{'\n'})
	return err
}

// each does one thing after the other with all members.
func each(members []*member, things ...func(*member) error) (err error) {
	for _, do := range things {
		for _, m := range members {
			if err = do(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// onNodes measures a workload of no-op steps that runs on several nodes at once, as often as is asked for.
func (b *bench) onNodes() error {
	return b.eachRun(func(string) (row, error) { return b.onNodesOnce() })
}

func (b *bench) onNodesOnce() (r *result, err error) {
	var members []*member
	defer func() {
		for _, m := range members {
			err = errors.Join(err, m.end())
		}
	}()
	for range b.Nodes {
		m, err := startMember(memberPrefix+b.workload, "--store", b.Store, "--n", strconv.Itoa(b.n), "--runs", "1", "--nodes", "1",
			"--workers", strconv.Itoa(b.Workers), "--bytes", strconv.Itoa(b.Bytes), "-o", "json")
		if err != nil {
			return nil, err
		}
		members = append(members, m)
		if err := m.ready(); err != nil {
			return nil, err
		}
	}
	before, err := b.usage(b.ctx)
	if err == nil {
		err = each(members, (*member).goOn, (*member).ready)
	}
	if err != nil {
		return nil, err
	}
	after, err := b.usage(b.ctx)
	if err == nil {
		err = each(members, (*member).goOn)
	}
	if err != nil {
		return nil, err
	}
	r = &result{Workload: b.workload, Store: "postgres", Queue: fmt.Sprintf("memory, %d nodes", b.Nodes), Sync: b.Sync, Fsync: b.fsync}
	var steps, node float64
	for _, m := range members {
		var x result
		if err := json.NewDecoder(m.out).Decode(&x); err != nil {
			return nil, fmt.Errorf("the figures of a node: %w", err)
		}
		steps += x.MS / x.MSPerStep
		node += x.Costs.Node * x.MS / x.MSPerStep
		r.N += x.N
		r.MS, r.P50, r.P99, r.RSS = max(r.MS, x.MS), max(r.P50, x.P50), max(r.P99, x.P99), max(r.RSS, x.RSS)
	}
	r.MSPerStep, r.StepsPerS = r.MS/steps, steps/r.MS*1000
	r.Costs = after.since(&before, int(steps))
	r.Costs.Node = node / steps
	b.all = append(b.all, r)
	return r, nil
}
