package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

const (
	maxChart = 32 << 20 // bytes of an archive, and of the files of a folder
	maxFiles = 10_000   // of a folder
)

// chart is what helm installs: a copy that nobody changes.
type chart struct {
	name string // for people
	path string // "": not fetched yet
	sum  string // SHA-256 of the archive, or of the folder's files
	from source // of one that is fetched
}

// source is where a chart's archive comes from. All attempts of a step use the first one's.
type source struct {
	URL     string `json:"url"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// place is where a chart is said to be: one of its fields.
type place struct {
	local   string
	archive *url.URL
	oci     *url.URL // https://host/name of the repository
	repo    *url.URL // with name
	name    string
}

var chartName = action.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,249}$`)

// readPlace reads the parameters chart and repo. Repo is empty too where it has a template: then named is true.
func readPlace(name, repo string, named bool) (p place, err error) {
	if repo != "" {
		if p.repo, err = readURL("repo", repo); err != nil {
			return p, err
		}
	}
	if named {
		if !chartName().MatchString(name) {
			return p, action.Invalid("", "chart: %q is not the name of a chart of a repository", stepwell.Clip(name, 80))
		}
		p.name = name
		return p, nil
	}
	if rest, ok := strings.CutPrefix(name, "oci://"); ok {
		p.oci, err = readURL("chart", "https://"+rest)
		if err == nil && !ociName().MatchString(strings.Trim(p.oci.Path, "/")) {
			err = action.Invalid("write it like oci://registry.example.org/charts/name, and the version as version", "chart: %q is not the name of a repository", stepwell.Clip(name, 80))
		}
		return p, err
	}
	if strings.Contains(name, "://") {
		p.archive, err = readURL("chart", name)
		return p, err
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return p, action.Invalid("name a folder or an archive below the pipeline's directory", "chart: %q leads out of the pipeline's directory", stepwell.Clip(name, 80))
	}
	p.local = name
	return p, nil
}

var ociName = action.Pattern(`^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

func readURL(param, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "":
		return nil, action.Invalid("such as https://charts.example.org/stable", "%s: it is not an address", param)
	case u.User != nil:
		return nil, action.Invalid("use credential", "%s: credentials do not belong into the address", param)
	}
	return u, nil
}

// semver is a version of a chart: three numbers, and more for pre-releases (after -) and builds (after +).
var semver = action.Pattern(`^v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func checkVersion(version string) error {
	if !semver().MatchString(version) {
		return action.Invalid("ranges are not supported; leave version out for the newest", "version: %q is not a version such as 1.4.2", stepwell.Clip(version, 80))
	}
	return nil
}

// newest is the newest of versions that are no pre-releases. "": there is none.
func newest(versions []string) string {
	best, at := [3]int{-1}, ""
	for _, v := range versions {
		m := semver().FindStringSubmatch(v)
		if m == nil || m[4] != "" {
			continue
		}
		var n [3]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
		if n[0] > best[0] || n[0] == best[0] && (n[1] > best[1] || n[1] == best[1] && n[2] > best[2]) {
			best, at = n, v
		}
	}
	return at
}

// findChart says what the chart is; one that comes from elsewhere is only fetched by the first attempt.
func (i *installation) findChart(ctx context.Context) (chart, error) {
	at, err := readPlace(i.p.Chart, i.p.Repo, i.p.Repo != "")
	if err != nil {
		return chart{}, err
	}
	if at.local != "" || at.archive != nil {
		if i.p.Version != "" {
			return chart{}, action.Invalid("leave it out", "version: the chart at this place has but one version")
		}
	}
	if at.local != "" {
		return i.copyChart(at.local)
	}
	fetched := ""
	from, err := action.Once(ctx, i.call, "helm.chart", func(ctx context.Context) (from source, err error) {
		switch {
		case at.oci != nil:
			from, err = i.findOCI(ctx, at.oci)
		case at.repo != nil:
			from, err = i.findIndexed(ctx, at)
		default:
			from = source{URL: at.archive.String()}
		}
		if err != nil {
			return from, err
		}
		fetched, from.SHA256, err = i.download(ctx, at, from)
		return from, err
	})
	if err != nil {
		return chart{}, err
	}
	name := i.p.Chart
	if from.Version != "" {
		name += " " + from.Version
	}
	return chart{name: name, path: fetched, sum: from.SHA256, from: from}, nil
}

// fetch makes sure that the chart is here.
func (i *installation) fetch(ctx context.Context) error {
	if i.chart.path != "" {
		return nil
	}
	at, err := readPlace(i.p.Chart, i.p.Repo, i.p.Repo != "")
	if err != nil {
		return err
	}
	i.chart.path, _, err = i.download(ctx, at, i.chart.from)
	return err
}

// download stores a chart's archive, which must have the hash if one is known.
func (i *installation) download(ctx context.Context, at place, from source) (file, sum string, err error) {
	text, err := i.get(ctx, at, from.URL, "application/gzip, application/octet-stream, */*", maxChart)
	if err != nil {
		return "", "", err
	}
	raw := sha256.Sum256(text)
	sum = hex.EncodeToString(raw[:])
	if from.SHA256 != "" && sum != from.SHA256 {
		return "", "", action.Fail(stepwell.Errorf(stepwell.CodeConflict, "restart the step to install what is there now", "the archive of the chart %s is not the one that was announced, or that an earlier attempt had", i.p.Chart))
	}
	return filepath.Join(i.private, "chart.tgz"), sum, i.store("chart.tgz", text)
}

func (i *installation) store(name string, text []byte) error {
	if err := os.WriteFile(filepath.Join(i.private, name), text, 0o600); err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "a copy of the chart", Err: err}
	}
	return nil
}

// openBelow opens the pipeline's directory for a file in it, which a parameter names. The caller closes it.
func (s *session) openBelow(param, name string) (*os.Root, string, error) {
	rel := filepath.FromSlash(name)
	if !filepath.IsLocal(rel) {
		return nil, "", action.Invalid("", "%s: %q leads out of the pipeline's directory", param, stepwell.Clip(name, 80))
	}
	dir := s.call.Dir
	if dir == "" {
		dir = "."
	}
	if err := s.call.May(filepath.Join(dir, rel)); err != nil {
		return nil, "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, "", action.Invalid("", "%s: the pipeline's directory: %v", param, err)
	}
	return root, rel, nil
}

var errTooLarge = errors.New("it is too large")

// readBelow reads a file of a directory, out of which no link leads.
func readBelow(root *os.Root, rel string, limit int64) ([]byte, error) {
	info, err := root.Stat(rel)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fs.ErrInvalid
	}
	f, err := root.Open(rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = errTooLarge
	}
	return text, err
}

func fileError(param, name string, err error) error {
	if errors.Is(err, errTooLarge) {
		return action.Fail(stepwell.Errorf(stepwell.CodeLimit, "", "%s: %s is too large", param, stepwell.Clip(name, 80)))
	}
	return action.Invalid("name what is below the pipeline's directory; links do not lead out of it", "%s: %v", param, err)
}

// copyChart copies a chart of the pipeline's directory: an archive, or a folder without links.
func (i *installation) copyChart(name string) (chart, error) {
	root, rel, err := i.openBelow("chart", name)
	if err != nil {
		return chart{}, err
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err != nil {
		return chart{}, fileError("chart", name, err)
	}
	if !info.IsDir() {
		text, err := readBelow(root, rel, maxChart)
		if err != nil {
			return chart{}, fileError("chart", name, err)
		}
		sum := sha256.Sum256(text)
		return chart{name: name, path: filepath.Join(i.private, "chart.tgz"), sum: hex.EncodeToString(sum[:])}, i.store("chart.tgz", text)
	}
	c := copying{root: root, to: filepath.Join(i.private, "chart"), left: maxChart, sums: []string{}}
	if err := fs.WalkDir(root.FS(), path.Clean(filepath.ToSlash(rel)), c.entry(path.Clean(filepath.ToSlash(rel)))); err != nil {
		if action.IsFail(err) {
			return chart{}, err
		}
		return chart{}, fileError("chart", name, err)
	}
	return chart{name: name, path: c.to, sum: hash(c.sums...)}, nil
}

// copying copies a folder.
type copying struct {
	root  *os.Root
	to    string
	left  int64
	files int
	sums  []string
}

func (c *copying) entry(base string) fs.WalkDirFunc {
	return func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.FromSlash(base), filepath.FromSlash(name))
		if err != nil {
			return err
		}
		target := filepath.Join(c.to, rel)
		switch {
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o700)
		case !entry.Type().IsRegular():
			return action.Fail(stepwell.Errorf(stepwell.CodeDenied, "charts are read without following links", "chart: %s is not a file", stepwell.Clip(name, 200)))
		}
		if c.files++; c.files > maxFiles {
			return action.Fail(stepwell.Errorf(stepwell.CodeLimit, "", "chart: the folder has more than %d files", maxFiles))
		}
		text, err := readBelow(c.root, filepath.FromSlash(name), c.left)
		if err != nil {
			return err
		}
		c.left -= int64(len(text))
		sum := sha256.Sum256(text)
		c.sums = append(c.sums, fmt.Sprintf("%s %x", filepath.ToSlash(rel), sum))
		return os.WriteFile(target, text, 0o600)
	}
}
