//go:build unix

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// exec changes the database beside the program.
func (r *fleetRig) exec(query string) {
	r.t.Helper()
	if err := postgrestest.Exec(r.url, query); err != nil {
		r.t.Fatal(err)
	}
}

// leave has a server stop in order.
func (n *fleetNode) leave() {
	n.t.Helper()
	if err := n.process.Process.Signal(os.Interrupt); err != nil {
		n.t.Error(err)
	}
	if err := n.process.Wait(); err != nil {
		n.t.Errorf("the server ended with %v", err)
	}
	n.process = nil
}

// refused starts a server that ends by itself, and returns what it says.
func (r *fleetRig) refused(key string) string {
	r.t.Helper()
	n := newCrashRig(r.t)
	cmd := exec.Command("stepwell", "serve", "--listen", n.address, "--db", r.url)
	cmd.Dir = n.dir
	cmd.Env = append(os.Environ(), "STEPWELL_SECRETS_KEY="+key)
	out, err := cmd.CombinedOutput()
	if err == nil {
		r.t.Error("a server ended without an error")
	}
	return string(out)
}

const goodKey, badKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB="

// TestFleetUpgrade: servers of two versions work on one database. One after the other is replaced while executions are under way, and nothing is
// lost; servers end, and do not start, once the database is only for later ones. A wrong master key is found before the database is changed.
func TestFleetUpgrade(t *testing.T) {
	t.Parallel()
	r := newFleetRig(t, postgrestest.URL(t), 2)
	version := r.count(`SELECT version FROM identity`)
	r.work(func() {
		// A server of the next version migrates the database as it starts.
		r.exec(`ALTER TABLE node ADD COLUMN later text; ALTER TABLE execution_live ADD COLUMN later text; ALTER TABLE execution_past ADD COLUMN later text; UPDATE identity SET version = version + 1`)
		for _, old := range r.nodes[:2] { // those of before work beside those that come
			r.add(r.url)
			old.leave()
		}
	})
	worker := func(protocol int) error {
		return r.alive()[0].client.Call(t.Context(), "POST", "/api/v1/worker/join", nil, api.Object{"worker": "other", "protocol": protocol, "version": "0.1", "concurrency": 1, "queues": []string{}, "actions": []api.Object{{"name": "other.do", "summary": "Does."}}}, nil)
	}
	if err := worker(1); err != nil {
		t.Errorf("a worker of the protocol that is served: %v", err)
	}
	if err := worker(3); err == nil || !strings.Contains(err.Error(), "protocol 3 is not served") {
		t.Errorf("a worker of a protocol of later: %v", err)
	}
	r.exec(`UPDATE identity SET oldest = version`)
	for _, n := range r.alive() {
		if err := n.process.Wait(); err == nil || !strings.Contains(n.out.String(), "the database was written by a newer stepwell") {
			t.Errorf("a server that the database is too new for ended with %v:\n%s", err, n.out.String())
		}
		n.process = nil
	}
	if said := r.refused(goodKey); !strings.Contains(said, "the database was written by a newer stepwell") {
		t.Error(said)
	}
	// A database of the version before, as far as it says: the newest migration may be made again. And a server with another master key.
	r.exec(`DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version); UPDATE identity SET oldest = 0, version = (SELECT max(version_id) FROM goose_db_version)`)
	if said := r.refused(badKey); !strings.Contains(said, "all nodes have the same master key") {
		t.Error(said)
	}
	if got := r.count(`SELECT version FROM identity`); got != version-1 {
		t.Errorf("the database has version %d, want %d", got, version-1)
	}
	r.add(r.url)
	if got := r.count(`SELECT version FROM identity`); got != version {
		t.Errorf("the database has version %d, want %d", got, version)
	}
}

// TestFleetNewerEngine: an execution that a newer program has begun is left to such a one, and says so; one that nobody can take up
// says why, and can be cancelled.
func TestFleetNewerEngine(t *testing.T) {
	t.Parallel()
	r := newFleetRig(t, postgrestest.URL(t), 2)
	a, b := r.nodes[0], r.nodes[1]
	a.must("POST", "/api/v1/pipelines", api.Object{"document": "name: asks\nsteps:\n  - {id: ask, action: util.approval, params: {message: \"continue?\"}}\n"}, nil)
	start := func() string {
		x, err := a.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "asks"}, "")
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	newer, broken := start(), start()
	a.until("both to ask", func() bool { return r.count(`SELECT count(*) FROM waiting`) == 2 })
	of := func(id string) string { return `(SELECT no FROM execution_live WHERE id = '` + id + `')` }
	r.exec(`UPDATE step_log SET body = replace(body, '"revision":2', '"revision":3') WHERE version = 1 AND execution = ` + of(newer))
	r.exec(`UPDATE step_log SET body = '{' WHERE version = 1 AND execution = ` + of(broken))
	a.kill()
	held := func(id string) string {
		list, err := b.client.Executions(t.Context(), api.ListExecutions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list.Executions {
			if x.ID == id {
				return x.Held
			}
		}
		return ""
	}
	b.until("the newer one is left alone", func() bool { return r.count(`SELECT owner FROM execution_live WHERE id = '`+newer+`'`) == 3 })
	b.until("the reasons", func() bool { return held(newer) != "" && held(broken) != "" })
	for id, want := range map[string]string{newer: "a newer stepwell has begun it (revision 3 of the engine, this one has 2)", broken: "cannot be taken up"} {
		why, err := b.client.Why(t.Context(), id, "")
		if err != nil || len(why) == 0 || !strings.Contains(why[0].Message, want) || !strings.Contains(held(id), want) {
			t.Errorf("why: %+v, error %v; list: %q", why, err, held(id))
		}
	}
	if err := b.client.Call(t.Context(), "POST", "/api/v1/executions/"+broken+"/cancel", nil, nil, nil); err != nil {
		t.Error(err)
	}
	b.until("its end", func() bool {
		return r.count(`SELECT count(*) FROM execution_past WHERE status = 7 AND id = '`+broken+`'`) == 1
	})
	// A server of the newer version knows the revision of the log.
	r.exec(`UPDATE step_log SET body = replace(body, '"revision":3', '"revision":2') WHERE version = 1 AND execution = ` + of(newer))
	r.exec(`UPDATE execution_live SET owner = 2 WHERE id = '` + newer + `'`)
	b.until("it continues", func() bool {
		b.approve(maxList)
		return r.count(`SELECT count(*) FROM execution_past WHERE status = 4 AND id = '`+newer+`'`) == 1
	})
	if x, err := b.client.Execution(t.Context(), newer); err != nil || x.Status != stepwell.ExecutionCompleted.String() || x.Held != "" {
		t.Errorf("%+v, error %v", x, err)
	}
}
