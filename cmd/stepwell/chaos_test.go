package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stepwell/stepwell/chaos"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// TestChaos runs the short form of `stepwell chaos`: 7,560 steps on two servers and a worker that are killed and stopped, and
// cut off from their database. Its books are read with SQL of their own. Faults more frequent than leases would keep the last steps from
// ending until the time is over.
func TestChaos(t *testing.T) {
	t.Parallel()
	address, err := postgrestest.Create(postgrestest.URL(t), "") // of the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgrestest.Drop(address) })
	cmd := exec.CommandContext(t.Context(), "stepwell", "chaos", "--store", address, "--minutes", "2", "--executions", "72", "--in-flight", "12", "--seed", "5", "--pause", "0.6",
		"--faults", "node-killed,node-stopped,worker-killed,worker-stopped,database-cut", "-o", "json")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	var r chaos.Result
	if bad := json.Unmarshal(out.Bytes(), &r); bad != nil {
		t.Fatalf("%v, %v: %s\n%s", err, bad, out.Bytes(), said.Bytes())
	}
	if err != nil || r.Executions != 72 || r.Steps != 7_560 || len(r.Wrong) > 0 || len(r.Faults) == 0 {
		t.Errorf("%v: %+v\n%s", err, r, said.Bytes())
	}
	t.Logf("%s", r.Text())

	// A database that others use is left alone.
	if err := postgrestest.Exec(address, `UPDATE execution_past SET pipeline = 'mine' WHERE no = (SELECT min(no) FROM execution_past)`); err != nil {
		t.Fatal(err)
	}
	refused, err := exec.CommandContext(t.Context(), "stepwell", "chaos", "--store", address).CombinedOutput()
	if err == nil || !bytes.Contains(refused, []byte("executions of other pipelines")) {
		t.Errorf("%v: %s", err, refused)
	}
}
