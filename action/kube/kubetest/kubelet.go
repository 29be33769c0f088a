package kubetest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// Images with which a pod does not run. With every other one Kubelet runs the command on this machine.
const (
	NeverStarts  = "kubetest.invalid/never-starts"  // no node takes the pod: Unschedulable
	MissingImage = "kubetest.invalid/missing-image" // cannot be pulled: ErrImagePull, then ImagePullBackOff
)

// TerminationLog is the variable that names the file of a container's termination message: /dev/termination-log is not theirs.
const TerminationLog = "KUBETEST_TERMINATION_LOG"

// maxStarts bounds the pods that are being started at a time.
const maxStarts = 16

// Kubelet is a node that runs the pods of one namespace: it takes those that no node has, runs containers[0] of each as a group
// of processes of this machine, once, says how that went, serves its log, and ends pods that are deleted.
type Kubelet struct {
	Node string

	c         *Cluster
	namespace string
	dir       string
	server    *http.Server
	stop      context.CancelFunc
	starts    chan struct{}
	running   sync.WaitGroup

	mu    sync.Mutex
	pods  map[string]*pod // by uid
	delay time.Duration
	cut   chan struct{} // closed when log streams are cut
	run   Runtime
}

// Runtime makes the process of a pod's container, which the kubelet starts, and gives the address that the pod has: what a container
// runtime does with an image. Words are the container's command and arguments, env is its environment.
type Runtime func(pod Object, words, env []string) (cmd *exec.Cmd, ip string, err error)

// With has a runtime make the processes of pods from now on, in place of the container's command alone. Their readiness probes are asked.
func (k *Kubelet) With(run Runtime) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.run = run
}

// Kubelet adds a node for a namespace; it ends with the test.
func (c *Cluster) Kubelet(t testing.TB, namespace string) *Kubelet {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	k := &Kubelet{Node: "node-" + strings.ToLower(rand.Text()[:12]), c: c, namespace: namespace, dir: t.TempDir(), stop: stop, starts: make(chan struct{}, maxStarts),
		pods: map[string]*pod{}, cut: make(chan struct{})}
	port := k.listen(t)
	c.Post(t, "/api/v1/nodes", Object{"metadata": Object{"name": k.Node}})
	status := Object{"status": Object{"addresses": []Object{{"type": "InternalIP", "address": "127.0.0.1"}}, "daemonEndpoints": Object{"kubeletEndpoint": Object{"Port": port}},
		"capacity": Object{"cpu": "64", "memory": "256Gi", "pods": "10000"}, "conditions": []Object{{"type": "Ready", "status": "True", "reason": "KubeletReady"}}}}
	if _, err := c.Patch(t.Context(), "/api/v1/nodes/"+k.Node+"/status", status); err != nil {
		t.Fatal(err)
	}
	k.running.Go(func() { k.watch(ctx) })
	t.Cleanup(k.end)
	return k
}

// listen serves the kubelet's API, of which there is only the log, and returns its port.
func (k *Kubelet) listen(t testing.TB) int {
	issued, err := issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(issued.cert, issued.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	k.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	k.running.Go(func() { _ = k.server.Serve(l) }) // until end
	return l.Addr().(*net.TCPAddr).Port
}

// end ends everything that runs; what the cluster has of it stays as it is.
func (k *Kubelet) end() {
	k.stop()
	_ = k.server.Close() // its streams end with it
	k.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, _ = k.c.Do(ctx, "DELETE", "/api/v1/nodes/"+k.Node, nil) // the cluster may be gone, or the node lost
}

func (k *Kubelet) known() []*pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*pod
	for _, p := range k.pods {
		all = append(all, p)
	}
	return all
}

// Slow delays the start of every pod, and the news of its end, from now on.
func (k *Kubelet) Slow(delay time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delay = delay
}

// CutLogs ends all streams of logs; they can be asked for again.
func (k *Kubelet) CutLogs() {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.cut)
	k.cut = make(chan struct{})
}

// Lose loses the node: its processes are gone without a word, and its pods become what the cluster's garbage collection makes of
// pods without a node, which would take it a minute: failed by a disruption, and deleted.
func (k *Kubelet) Lose(t testing.TB) {
	t.Helper()
	k.end()
	path := "/api/v1/namespaces/" + k.namespace + "/pods/"
	for _, o := range k.c.Items(t, strings.TrimSuffix(path, "/")) {
		phase := o.Text("status", "phase")
		if o.Text("spec", "nodeName") != k.Node || phase == "Succeeded" || phase == "Failed" {
			continue
		}
		name := o.Text("metadata", "name")
		status := Object{"status": Object{"phase": "Failed", "conditions": []Object{
			{"type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": stamp(time.Now().Add(-time.Minute))},
			{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists", "lastTransitionTime": stamp(time.Now())}}}}
		if _, err := k.c.Patch(t.Context(), path+name+"/status", status); err != nil {
			t.Fatal(err)
		}
		if _, err := k.c.Do(t.Context(), "DELETE", path+name, Object{"gracePeriodSeconds": 0}); err != nil {
			t.Fatal(err)
		}
	}
}

// watch follows the namespace's pods until the node ends.
func (k *Kubelet) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if err := k.follow(ctx); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // the API server is being restarted
			}
		}
	}
}

func (k *Kubelet) follow(ctx context.Context) error {
	path := "/api/v1/namespaces/" + k.namespace + "/pods"
	list, err := k.c.Do(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	for _, o := range list.List("items") {
		k.see(ctx, o)
	}
	resp, err := k.c.open(ctx, "GET", path+"?watch=true&resourceVersion="+list.Text("metadata", "resourceVersion"), "application/json", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	for lines := json.NewDecoder(resp.Body); ; {
		var event struct {
			Type   string
			Object Object
		}
		if err := lines.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case "ADDED", "MODIFIED":
			k.see(ctx, event.Object)
		case "DELETED": // at once, without its node
			k.mu.Lock()
			p := k.pods[event.Object.Text("metadata", "uid")]
			k.mu.Unlock()
			if p != nil {
				p.end()
			}
		case "ERROR":
			return errors.New(event.Object.Text("message"))
		}
	}
}

// see does what has become due for a pod.
func (k *Kubelet) see(ctx context.Context, o Object) {
	node, deleted := o.Text("spec", "nodeName"), o.Text("metadata", "deletionTimestamp") != ""
	phase := o.Text("status", "phase")
	if (node != "" && node != k.Node) || (node == "" && (deleted || phase != "Pending")) {
		return
	}
	uid := o.Text("metadata", "uid")
	k.mu.Lock()
	p, known := k.pods[uid]
	if !known {
		p = &pod{k: k, object: o, deleted: make(chan struct{}), ended: make(chan struct{}), more: make(chan struct{})}
		k.pods[uid] = p
	}
	k.mu.Unlock()
	if !known {
		k.running.Go(func() { p.live(ctx) })
	}
	if deleted {
		p.end()
	}
}
