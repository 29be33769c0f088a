package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRecordedStacFlows records the four flows against a STAC API once; with the API gone they give the same files.
func TestRecordedStacFlows(t *testing.T) {
	schemas := matrixSchemas(t)
	for _, c := range []combination{{"discover", "json", "base_dir", "discovery"}, {"dump", "ndjson", "output_path", "plain"}, {"patch", "catalog", "base_dir", "plain"}, {"diamond", "json flat", "output_path", "matrix"}} {
		t.Run(c.String(), func(t *testing.T) {
			t.Parallel()
			r := newMatrixRig(t, c, schemas)
			r.begin("run")
			before := filesBelow(t, r.dir)
			r.run(exitOK, "run", "flow.yaml", "--no-db", "--record-http", "rec")
			online := outputsOf(t, r.dir, before)
			if len(online) == 0 {
				t.Fatal("the flow has written nothing")
			}
			for name, text := range filesBelow(t, filepath.Join(r.dir, "rec")) {
				if strings.Contains(text, "hidden-key") {
					t.Errorf("%s holds the key of the API", name)
				}
			}
			for name := range online {
				if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			r.server.CloseClientConnections()
			r.server.Close()
			r.run(exitOK, "run", "flow.yaml", "--no-db", "--replay-http", "rec")
			if diff := cmp.Diff(online, outputsOf(t, r.dir, before)); diff != "" {
				t.Errorf("offline the flow writes something else: %s", diff)
			}
		})
	}
}

var anyTime = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)|"duration_seconds": ?[0-9.]+|"(execution|workflow)_id": ?"[^"]*"`)

// outputsOf are the files that a flow has written, without the present time in them.
func outputsOf(t *testing.T, dir string, before map[string]string) map[string]string {
	t.Helper()
	out := filesBelow(t, dir)
	for name, text := range out {
		if _, there := before[name]; there || strings.HasPrefix(name, "rec/") || strings.Contains(name, "summary") || strings.Contains(name, ".stepwell") {
			delete(out, name)
			continue
		}
		out[name] = anyTime.ReplaceAllString(text, "")
	}
	return out
}

func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	r := &recorderRig{t: t, dir: dir}
	out := map[string]string{}
	for _, path := range r.paths("") {
		raw, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		out[path] = string(raw)
	}
	return out
}

// TestRecordedBudpipeline records the document of the specification once, with its services; its test is green when they are gone.
func TestRecordedBudpipeline(t *testing.T) {
	t.Parallel()
	specification := budSpecification(t)
	_, rest, _ := strings.Cut(specification, "#### DAG Definition Schema")
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	document, _, closed := strings.Cut(rest, "```")
	if !closed {
		t.Fatal("the specification has changed")
	}
	bud, settings := startBudServices(t)
	r := newRecorderRig(t)
	r.write("stepwell.yaml", settings)
	r.write("deploy.yaml", document)
	args := []string{"run", "deploy.yaml", "-p", "model_uri=meta-llama/Llama-2-7b", "-p", "cluster_id=c-1"}
	r.must(0, append(args, "--record-http", "rec", "--record", "tests")...)
	if sent, _ := bud.of("POST /api/v1/deployments"); len(sent) != 1 {
		t.Fatalf("%d deployments", len(sent))
	}
	r.must(0, append(args, "--no-db", "--replay-http", "rec")...)
	r.write("deploy.test.yaml", "params: {model_uri: meta-llama/Llama-2-7b, cluster_id: c-1}\nunmocked: real\n"+
		"tests:\n  - name: with recorded services\n    expect: {status: completed, outputs: {endpoint_url: 'https://e-1.example', model_id: m-1}}\n")
	r.must(0, "test", "deploy.test.yaml", "--replay-http", "rec")
	r.must(0, "test", "tests") // that of --record plays without any
	if sent, _ := bud.of("POST /api/v1/deployments"); len(sent) != 1 {
		t.Errorf("%d deployments: something was sent", len(sent))
	}
}
