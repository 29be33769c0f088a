package deploy

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/kube/kubetest"
	"github.com/stepwell/stepwell/tooltest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// site is a namespace of a real control plane in which pods run the real image: each in a root folder of its own, as the pod's user,
// with its volumes in their places, at an address of its own on loopback, where the others find it by the names of the headless service.
// It isolates nothing that needs a kernel's help: no namespaces, no limits, no read-only root.
type site struct {
	t         *testing.T
	cluster   *kubetest.Cluster
	namespace string
	config    string
	image     *unpacked
	dir       string
	block     string // of the addresses: 127.x.y.

	mu    sync.Mutex
	roots int
	ended map[string]int // pods by name: how often one was started
}

func newSite(t *testing.T) *site {
	imagesWanted(t)
	if os.Getuid() != 0 {
		t.Skip("changing the root folder needs root")
	}
	s := &site{t: t, cluster: kubetest.Start(t), dir: t.TempDir(), ended: map[string]int{}}
	s.namespace = s.cluster.Namespace(t)
	s.config = filepath.Join(s.dir, "kubeconfig")
	if err := os.WriteFile(s.config, []byte(s.cluster.Kubeconfig(s.namespace)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.dir, 0o755); err != nil { // pods pass through as another user
		t.Fatal(err)
	}
	var at [2]byte
	if _, err := rand.Read(at[:]); err != nil {
		t.Fatal(err)
	}
	s.block = fmt.Sprintf("127.%d.%d.", 1+at[0]%250, at[1])
	out := filepath.Join(s.dir, "image")
	buildImages(t, out)
	s.image = unpack(t, filepath.Join(out, "stepwell"), filepath.Join(out, "root"))
	return s
}

// address is that of a pod: the last number is in its name, or that of its start.
func (s *site) address(pod string) string {
	var n int
	if _, err := fmt.Sscanf(pod, "stepwell-%d", &n); err == nil && pod == fmt.Sprintf("stepwell-%d", n) {
		return fmt.Sprintf("%s%d", s.block, 10+n)
	}
	return fmt.Sprintf("%s%d", s.block, 100+s.roots%100)
}

// run is the container runtime.
func (s *site) run(pod kubetest.Object, words, env []string) (*exec.Cmd, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.roots++
	name := pod.Text("metadata", "name")
	s.ended[name]++
	root := filepath.Join(s.dir, fmt.Sprintf("root-%d", s.roots))
	ip := s.address(name)
	if err := os.CopyFS(root, os.DirFS(s.image.root)); err != nil {
		return nil, "", err
	}
	if err := errors.Join(s.volumes(pod, root), s.hosts(root)); err != nil {
		return nil, "", err
	}
	words = append(slices.Clone(s.image.config.Config.Entrypoint), words...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = s.image.config.Config.WorkingDir
	cmd.Env = append(append(slices.Clone(s.image.config.Config.Env), "STEPWELL_LISTEN="+ip+":8010"), env...)
	spec := kubetest.Object(pod.At("spec", "securityContext").(map[string]any))
	uid, _ := spec["runAsUser"].(float64)
	gid, _ := spec["runAsGroup"].(float64)
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd, ip, nil
}

// hosts has the names that the headless service gives.
func (s *site) hosts(root string) error {
	var text strings.Builder
	text.WriteString("127.0.0.1 localhost\n")
	for n := range 3 {
		fmt.Fprintf(&text, "%s stepwell-%d.stepwell-nodes\n", s.address(fmt.Sprintf("stepwell-%d", n)), n)
	}
	return errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.WriteFile(filepath.Join(root, "etc/hosts"), []byte(text.String()), 0o644))
}

// volumes puts the container's volumes where they are mounted, with the owner that fsGroup gives them.
func (s *site) volumes(pod kubetest.Object, root string) error {
	container := pod.List("spec", "containers")[0]
	mounts := container.List("volumeMounts")
	slices.SortFunc(mounts, func(a, b kubetest.Object) int { return len(a.Text("mountPath")) - len(b.Text("mountPath")) })
	for _, m := range mounts {
		at := slices.IndexFunc(pod.List("spec", "volumes"), func(v kubetest.Object) bool { return v.Text("name") == m.Text("name") })
		if at < 0 {
			return fmt.Errorf("there is no volume %s", m.Text("name"))
		}
		if err := s.volume(pod.List("spec", "volumes")[at], m, filepath.Join(root, m.Text("mountPath"))); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) volume(v, mount kubetest.Object, target string) error {
	const owner = 65532
	path := "/api/v1/namespaces/" + s.namespace
	switch {
	case v["emptyDir"] != nil:
		return errors.Join(os.MkdirAll(target, 0o770), os.Chmod(target, 0o770), os.Chown(target, owner, owner))
	case v["configMap"] != nil:
		o, err := s.cluster.Do(s.t.Context(), "GET", path+"/configmaps/"+v.Text("configMap", "name"), nil)
		if err != nil {
			return err
		}
		return os.WriteFile(target, []byte(o.Text("data", mount.Text("subPath"))), 0o644)
	case v["secret"] != nil:
		o, err := s.cluster.Do(s.t.Context(), "GET", path+"/secrets/"+v.Text("secret", "secretName"), nil)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		for _, item := range v.List("secret", "items") {
			text, err := base64.StdEncoding.DecodeString(o.Text("data", item.Text("key")))
			if err != nil || len(text) == 0 {
				return fmt.Errorf("the secret has no %s: %v", item.Text("key"), err)
			}
			file := filepath.Join(target, item.Text("path"))
			if err := errors.Join(os.WriteFile(file, text, 0o440), os.Chown(file, 0, owner)); err != nil { // 0400 becomes readable for fsGroup
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a volume of another kind: %v", v)
}

// helm runs helm; where it is not built the test is skipped.
func (s *site) helm(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), tooltest.Path(s.t, tooltest.Helm), append([]string{"--kubeconfig", s.config, "--namespace", s.namespace}, args...)...)
	cmd.Env = []string{"HOME=" + s.dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("helm %v: %v\n%s\n%s", args[:2], err, out, s.state())
	}
	return string(out)
}

// state says how the pods are.
func (s *site) state() string {
	var text strings.Builder
	for _, p := range s.cluster.Items(s.t, "/api/v1/namespaces/"+s.namespace+"/pods") {
		raw, err := json.Marshal(p["status"])
		fmt.Fprintln(&text, p.Text("metadata", "name"), string(raw), err)
	}
	return text.String()
}

// uids are those of the pods that are ready and stay, by name.
func (s *site) uids() map[string]string {
	s.t.Helper()
	all, err := s.readyPods()
	if err != nil {
		s.t.Fatal(err)
	}
	return all
}

func (s *site) readyPods() (map[string]string, error) {
	list, err := s.cluster.Do(s.t.Context(), "GET", "/api/v1/namespaces/"+s.namespace+"/pods", nil)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, p := range list.List("items") {
		for _, c := range p.List("status", "conditions") {
			if c.Text("type") == "Ready" && c.Text("status") == "True" && p.Text("metadata", "deletionTimestamp") == "" {
				all[p.Text("metadata", "name")] = p.Text("metadata", "uid")
			}
		}
	}
	return all, nil
}

func (s *site) eventually(what string, holds func() bool) {
	s.t.Helper()
	for begun := time.Now(); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			s.t.Fatalf("%s does not come about\n%s", what, s.state())
		}
	}
}

// request asks a node; it gives the status, or 0, and the answer.
func (s *site) request(node int, method, path, key string, body any) (int, map[string]any) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address(fmt.Sprintf("stepwell-%d", node))+":8010"+path, sent)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	var answer map[string]any
	_ = json.NewDecoder(resp.Body).Decode(&answer) // the status says enough
	return resp.StatusCode, answer
}

// stepwell runs a command in a container beside the nodes, as `kubectl exec` does in one of them.
func (s *site) stepwell(database, master string, args ...string) string {
	s.t.Helper()
	root := filepath.Join(s.dir, "exec")
	if _, err := os.Stat(root); err != nil {
		if err := errors.Join(os.CopyFS(root, os.DirFS(s.image.root)), os.WriteFile(filepath.Join(root, "master-key"), []byte(master), 0o444), os.Chown(filepath.Join(root, "data"), 65532, 65532)); err != nil {
			s.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(s.t.Context(), s.image.config.Config.Entrypoint[0], args...)
	cmd.Dir, cmd.Env = "/data", append(slices.Clone(s.image.config.Config.Env), "STEPWELL_DB="+database, "STEPWELL_SECRETS_KEY_FILE=/master-key")
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("stepwell %v: %v\n%s", args, err, out)
	}
	return string(out)
}
