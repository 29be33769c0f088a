package git

import (
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// repo is the address of a repository.
type repo struct {
	url      string // as git gets it
	protocol string
	host     string // lower case; "" of a file
	port     int    // 0: the protocol's
	origin   string // of http and https: scheme://host[:port]
	path     string // of a file
}

var (
	scpLike  = action.Pattern(`^([A-Za-z0-9._-]+)@([A-Za-z0-9.-]+):([^:].*)$`)
	hostName = action.Pattern(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$|^[0-9a-f:]*:[0-9a-f:.]*$`)
	userName = action.Pattern(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
	commitID = action.Pattern(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// readRepo reads and checks an address. Errors never show it: it may hold credentials.
func readRepo(text string, allowed []string) (*repo, error) {
	if strings.ContainsFunc(text, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) }) || strings.HasPrefix(text, "-") {
		return nil, action.Invalid("write it like https://example.org/team/tools.git", "repo: is not an address")
	}
	if m := scpLike().FindStringSubmatch(text); m != nil && !strings.Contains(text, "://") {
		text = "ssh://" + m[1] + "@" + m[2] + "/" + strings.TrimPrefix(m[3], "/")
	}
	if filepath.IsAbs(text) {
		text = fileURL(text)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || !slices.Contains(protocols, u.Scheme) {
		return nil, action.Invalid("write it like https://example.org/team/tools.git", "repo: is not an address of a known protocol")
	}
	if !slices.Contains(allowed, u.Scheme) {
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeDenied, "in stepwell.yaml: git: {protocols: ["+strings.Join(append(slices.Clone(allowed), u.Scheme), ", ")+"]}", "repo: the protocol %s is not allowed", u.Scheme))
	}
	return repoOf(u)
}

func repoOf(u *url.URL) (*repo, error) {
	r := &repo{protocol: u.Scheme, host: strings.ToLower(u.Hostname())}
	if _, secret := u.User.Password(); secret || u.User != nil && u.Scheme != "ssh" {
		return nil, action.Invalid("put them into credential", "repo: holds credentials")
	}
	if r.protocol == "file" {
		if r.host != "" || !filepath.IsAbs(filepath.FromSlash(u.Path)) {
			return nil, action.Invalid("write it like file:///srv/tools.git", "repo: names no file")
		}
		r.path = filepath.Clean(filepath.FromSlash(u.Path))
		r.url = fileURL(r.path)
		return r, nil
	}
	if !hostName().MatchString(r.host) || u.User != nil && !userName().MatchString(u.User.Username()) || strings.Trim(u.Path, "/") == "" {
		return nil, action.Invalid("write it like https://example.org/team/tools.git", "repo: names no host and path")
	}
	host := r.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if text := u.Port(); text != "" {
		port, err := strconv.Atoi(text)
		if err != nil || port < 1 || port > 65535 {
			return nil, action.Invalid("", "repo: %q is not a port", text)
		}
		r.port, host = port, host+":"+text
	}
	r.origin = r.protocol + "://" + host
	u.Host = host
	r.url = u.String()
	return r, nil
}

func fileURL(path string) string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
}

// checkRef reports what git refuses as the name of a ref (git-check-ref-format).
func checkRef(ref string) error {
	bad := strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") || strings.HasSuffix(ref, "/") || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "//") || strings.Contains(ref, "@{") || strings.ContainsAny(ref, " ~^:?*[\\") ||
		strings.ContainsFunc(ref, unicode.IsControl)
	for part := range strings.SplitSeq(ref, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return action.Invalid("a branch, a tag, HEAD, or a whole commit id", "ref: %q is not a name", stepwell.Clip([]byte(ref), 60))
	}
	return nil
}

// checkPath reports a path that is not one of a folder in a repository.
func checkPath(name, path string) error {
	slashed := filepath.ToSlash(path)
	bad := path != "" && !filepath.IsLocal(filepath.FromSlash(path)) || strings.HasPrefix(path, "-") || strings.ContainsAny(path, "\\\"*?[]!#") ||
		strings.ContainsFunc(path, unicode.IsControl)
	for part := range strings.SplitSeq(slashed, "/") {
		bad = bad || strings.EqualFold(part, ".git")
	}
	if bad {
		return action.Invalid("write it like tools/eu", "%s: %q is not a folder of a repository", name, stepwell.Clip([]byte(path), 60))
	}
	return nil
}

// names are the refs that a ref of the parameters may mean, the first that there is.
func names(ref string) []string {
	if ref == "HEAD" || strings.HasPrefix(ref, "refs/") {
		return []string{ref}
	}
	return []string{"refs/heads/" + ref, "refs/tags/" + ref}
}
