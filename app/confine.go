package app

import (
	"cmp"
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sandbox"
)

// Exec confines the commands of steps (util.exec, external.git.run) on a server. They are confined once some callers are not admins;
// until then User, Folders or Read make the server refuse them.
type Exec struct {
	// User runs the commands; the server must be root. Defaults to Landlock.
	User string
	// Folders may be read and changed. Defaults to the working directory.
	Folders []string
	// Read are further folders and files that may be read. Defaults to none.
	Read []string
	// PassEnv are variables of the server that commands may ask for. Defaults to none.
	PassEnv []string
}

// wanted says whether the settings say how commands are confined.
func (e *Exec) wanted() bool { return e.User != "" || len(e.Folders) > 0 || len(e.Read) > 0 }

// Sandbox returns the sandbox of commands: CodeDenied, with the reason and a cure, where none is possible.
func (o *Options) Sandbox() (*sandbox.Sandbox, error) {
	return sandbox.New(sandbox.Options{User: o.Exec.User, Folders: o.Exec.Folders, Read: o.Exec.Read, Hidden: o.hidden()})
}

// hidden are the files and folders of the server itself.
func (o *Options) hidden() []string {
	list := append([]string{}, o.Private...)
	if o.Data != "" {
		list = append(list, o.Data)
	}
	if o.DB != "" {
		db := o.beside()
		list = append(list, db, db+"-wal", db+"-shm", db+".lock", db+".key", db+".blobs", db+"-streams", o.gitCache())
	}
	for _, path := range []string{o.MasterKey.File, o.MasterKey.Generated, o.Checkpoints} {
		if path != "" {
			list = append(list, path)
		}
	}
	return list
}

// gitCache is the folder of cached repositories; "" without data.
func (o *Options) gitCache() string {
	if o.DB == "" {
		return ""
	}
	return o.beside() + "-git"
}

// gitOptions are those of external.git.run, whose commands are confined as those of util.exec are.
func (o *Options) gitOptions(commands builtin.Options) git.Options {
	g := o.Git
	g.Cache, g.Commands = cmp.Or(g.Cache, o.gitCache()), commands
	return g
}

// confinement is how the commands of a server are confined.
type confinement struct {
	box     *sandbox.Sandbox
	refused error // why there is no box
	fence   *sandbox.Fence
}

// buildConfinement creates the sandbox. Confinement required by the settings must be possible; the need for one because
// of API keys is checked again later.
func (s *Server) buildConfinement(ctx context.Context) error {
	if err := sandbox.Close(); err != nil {
		return err
	}
	c := &s.confinement
	fence, err := sandbox.NewFence(s.o.Files, s.o.hidden())
	if err != nil {
		return err
	}
	c.fence = fence
	c.box, c.refused = s.o.Sandbox()
	if c.refused != nil && (s.o.Exec.wanted() || stepwell.CodeOf(c.refused) != stepwell.CodeDenied) {
		return c.refused
	}
	open, err := s.auth.Open(ctx)
	if err != nil {
		return err
	}
	switch {
	case open && s.o.Exec.wanted():
		s.log.Warn("steps that run commands are refused", "reason", errOpen, "hint", errOpen.Hint)
	case open:
	case c.refused != nil:
		s.log.Warn("steps that run commands are refused", "reason", c.refused, "hint", stepwell.HintOf(c.refused))
	default:
		s.log.Info("commands of steps are confined", "how", c.box.String())
		for _, dir := range c.box.Crowded() {
			s.log.Info("commands cannot create files directly in a folder that holds data of the server, only in folders in it", "folder", dir, "hint", "keep the data elsewhere (--data)")
		}
	}
	return nil
}

// sandbox returns the sandbox of the next command; nil: none, as every caller is an admin.
func (s *Server) sandbox(ctx context.Context) (*sandbox.Sandbox, error) {
	open, err := s.auth.Open(ctx)
	switch {
	case err != nil:
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "whether commands are confined", Err: err}
	case open && s.o.Exec.wanted():
		return nil, errOpen
	case open:
		return nil, nil
	}
	return s.confinement.box, s.confinement.refused
}

// errOpen refuses confined commands on a server that treats every local caller as an admin: a command could have the
// server do whatever the sandbox forbids.
var errOpen = &stepwell.Error{Code: stepwell.CodeDenied, Message: "commands are to be confined, but as long as there is no API key they could use this server as an admin",
	Hint: "create one: stepwell keys create --role admin NAME; or take exec.user, exec.folders and exec.read out of the settings"}

// touch is CodeDenied when steps may not touch a file: with Files always, else once not everybody is an admin.
func (s *Server) touch(path string) error {
	if len(s.o.Files) == 0 {
		open, err := s.auth.Open(context.Background()) // from memory, but once in ten seconds
		if err != nil {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "whether files are confined", Err: err}
		}
		if open {
			return nil
		}
	}
	return s.confinement.fence.Admits(path)
}

// allow is CodeDenied when the policy forbids the author to use an action. Definitions stored before authors were
// recorded count as an editor's.
func (s *Server) allow(author *definition.Author, action string) error {
	return allowed(s.policies, s.Actions, author, action)
}

func allowed(policies *access.Policies, actions *action.Registry, author *definition.Author, name string) error {
	u := access.Use{Names: []string{name}, Role: access.Editor.String()}
	if author != nil {
		u.Role, u.Pipeline, u.Name = author.Role, author.Pipeline, author.Name
	}
	if about, ok := actions.Spec(name); ok {
		if about.Internal {
			return nil
		}
		u.Names, u.Reserved = append([]string{about.Name}, about.Aliases...), about.Reserved
	}
	return policies.Check(u)
}
