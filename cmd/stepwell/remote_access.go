package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/doctor"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/view"
)

func (p *program) newSecretsCommand() *cobra.Command {
	r := &resource{path: "secrets", items: "secrets", what: "secret", whole: true,
		columns: []view.Column{{"NAME", "name"}, {"VERSION", "version"}, {"UPDATED", "updated_at"}, {"BY", "updated_by"}}}
	return p.group("secrets", []string{"secret"}, "Manage secrets", "Manage secrets: values that steps use as {{ secrets.NAME }}. They are stored encrypted and never shown.",
		p.listing(r, "List the secrets, without their values"), p.newSecretSet(r), p.deleting(r, "Delete a secret"), p.newSecretsRewrap())
}

func (p *program) newSecretSet(r *resource) *cobra.Command {
	c := connection{makes: true}
	var file string
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set the value of a secret",
		Long: "Set the value of a secret. The value is read from the terminal without showing it, from the input,\n" +
			"or from a file; never from the arguments, which everybody on the machine can see. One line end at\n" +
			"the end of the value is left out.\n\n" +
			"With --data or --db, or when no server is named and none answers, it is set in the database itself,\n" +
			"which no server may be using.",
		Args: arguments(1, 1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			value, err := p.secretValue(file)
			if err != nil {
				return err
			}
			return p.calling(&c, func(ctx context.Context, client *client.Client) error {
				answer := object{}
				if err := client.Call(ctx, "PUT", r.at(args[0]), nil, object{"value": value}, &answer); err != nil {
					return err
				}
				return p.answered(&c, answer, "Set the secret %s.", view.Printable(args[0]))
			})
		},
	}
	c.add(p, cmd.Flags())
	cmd.Flags().StringVar(&file, "from-file", "", "`file` with the value")
	return cmd
}

func (p *program) secretValue(file string) (string, error) {
	text := ""
	in, isFile := p.in.(*os.File)
	switch {
	case file == "" && isFile && term.IsTerminal(int(in.Fd())):
		fmt.Fprint(p.err, "value: ")
		raw, err := term.ReadPassword(int(in.Fd()))
		fmt.Fprintln(p.err)
		if err != nil {
			return "", fmt.Errorf("terminal: %w", err)
		}
		text = string(raw)
	default:
		if file == "" {
			file = "-"
		}
		var err error
		if text, err = p.readText(file); err != nil {
			return "", err
		}
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if text == "" {
		return "", stepwell.Invalid("", "the value is empty")
	}
	return text, nil
}

func keyResource() *resource {
	return &resource{path: "keys", items: "keys", what: "API key", whole: true,
		columns: []view.Column{{"ID", "key_id"}, {"NAME", "name"}, {"ROLE", "role"}, {"CREATED", "created_at"}, {"EXPIRES", "expires_at"}, {"LAST USED", "last_used_at"}, {"REVOKED", "revoked_at"}}}
}

// keyFlags ask for an API key.
type keyFlags struct {
	role    choice
	expires string
	name    string
}

func (k *keyFlags) add(f *pflag.FlagSet) {
	k.role = choice{"viewer", []string{"viewer", "operator", "editor", "admin", "worker"}}
	f.Var(&k.role, "role", "what its holder may do")
	f.StringVar(&k.expires, "expires", "", "after how long it is no longer good, such as 90d or 12h; never without it")
}

func (k *keyFlags) take(args []string) { k.name = args[0] }

func (k *keyFlags) body(*program) (object, error) {
	o := object{"name": k.name, "role": k.role.value}
	at, err := k.until(time.Now())
	if err == nil && !at.IsZero() {
		o["expires_at"] = at.UTC().Format(time.RFC3339)
	}
	return o, err
}

// until is when a key made now is no longer good; zero: never.
func (k *keyFlags) until(now time.Time) (time.Time, error) {
	if k.expires == "" {
		return time.Time{}, nil
	}
	days := 0
	if _, err := fmt.Sscanf(k.expires, "%dd", &days); err == nil && fmt.Sprintf("%dd", days) == k.expires && days > 0 && days < 36_500 {
		return now.AddDate(0, 0, days), nil
	}
	d, err := time.ParseDuration(k.expires)
	if err != nil || d <= 0 {
		return time.Time{}, stepwell.Invalid("write it like 90d or 12h", "--expires: %q is not a duration", k.expires)
	}
	return now.Add(d), nil
}

func (p *program) newAuditCommand() *cobra.Command {
	r := &resource{path: "audit", items: "entries", what: "change",
		columns: []view.Column{{"TIME", "at"}, {"ACTOR", "actor"}, {"ROLE", "role"}, {"FROM", "remote"}, {"ACTION", "action"}, {"OBJECT", "object"}, {"RESULT", "result"}},
		filters: []filter{{"actor", "actor", "only changes by this `name`"}, {"action", "action", "only changes of this `kind`, such as schedule.update"},
			{"object", "object", "only changes of the thing with this `id`"}, {"since", "since", "only changes since this `time`"}}}
	return p.group("audit", nil, "Show who changed what", "Show who changed what, newest first.", p.listing(r, "List changes, newest first"))
}

func (p *program) newKeysCommand() *cobra.Command {
	r := keyResource()
	return p.group("keys", []string{"key"}, "Manage API keys", "Manage API keys, each of which has a role. Without any key, a server on a loopback address is open to every user of the machine. With --data, --db or --here, create opens the database directly, even while a server uses it: create the first key of a server on another address this way.",
		p.listing(r, "List the API keys"), p.newKeyCreate(), p.verb("revoke ID", "Revoke an API key and keep it in the list", "POST", func(id string) string { return r.at(id, "revoke") }, "Revoked API key %s."),
		p.deleting(r, "Delete an API key"))
}

func (p *program) newKeyCreate() *cobra.Command {
	f := &keyFlags{}
	var c connection
	here := false
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key and show it, once",
		Long:  "Create an API key and show it, once. After the first one every request needs a key, and commands of steps are confined or refused (docs/security.md): stored pipelines that will be refused are listed, with what to do.",
		Args:  arguments(1, 1, "NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			f.take(args)
			if here || c.choseDatabase() {
				return p.createKeyHere(&c, f)
			}
			body, err := f.body(p)
			if err != nil {
				return err
			}
			return p.calling(&c, func(ctx context.Context, client *client.Client) error {
				answer := object{}
				if err := client.Call(ctx, "POST", pathTo("keys"), nil, body, &answer); err != nil {
					return err
				}
				if c.output.value == "json" {
					return view.WriteJSON(p.out, answer)
				}
				refused, _ := answer["refused"].([]any)
				delete(answer, "refused")
				p.showRefused(refused)
				return p.shown(&c, answer, "Created API key %s. Copy it now: it is not shown again.", view.Cell(answer["name"]))
			})
		},
	}
	c.add(p, cmd.Flags())
	f.add(cmd.Flags())
	cmd.Flags().BoolVar(&here, "here", false, "in the database itself that STEPWELL_DB or the settings name, whatever server answers")
	return cmd
}

// showRefused lists what is refused from now on, beside a new key.
func (p *program) showRefused(rows []any) {
	if len(rows) > 0 {
		fmt.Fprintln(p.err, "refused from now on:")
	}
	for _, r := range rows {
		if o, ok := r.(object); ok {
			fmt.Fprintf(p.err, "  %s\n    → %s\n", doctor.RefusedLine(view.Cell(o["kind"]), view.Cell(o["name"]), view.Cell(o["id"]), view.Cell(o["step_id"]), view.LongCell(o["reason"])), view.LongCell(o["cure"]))
		}
	}
}

// createKeyHere makes a key in the database, for those who may write to the file.
func (p *program) createKeyHere(c *connection, f *keyFlags) (err error) {
	ctx := context.Background()
	n := access.NewKey{Name: f.name, By: "command"}
	if err := n.Role.UnmarshalText([]byte(f.role.value)); err != nil {
		return err
	}
	if n.Expires.Time, err = f.until(time.Now()); err != nil {
		return err
	}
	if err := p.makeData(); err != nil {
		return err
	}
	s, err := app.OpenWriter(ctx, p.settings.db, p.log())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	keys := access.NewKeys(s, p.log())
	before, err := keys.List(ctx)
	if err != nil {
		return err
	}
	key, token, err := keys.Create(ctx, n)
	if err != nil {
		return err
	}
	if err := s.AppendAudit(ctx, []store.AuditEntry{{At: time.Now(), Actor: n.By, Action: "key.create", Object: key.ID, Result: "ok"}}); err != nil {
		return err
	}
	var rows []any
	if len(before) == 0 {
		refused, err := p.refusedCommands(ctx, s)
		if err != nil { // the key is made
			fmt.Fprintf(p.err, "which stored steps are refused from now on is not known: %v\n", err)
		}
		for _, r := range refused {
			rows = append(rows, object{"kind": r.Kind, "id": r.ID, "name": r.Name, "step_id": r.Step, "reason": r.Err.Error(), "cure": stepwell.HintOf(r.Err)})
		}
	}
	if c.output.value == "json" {
		answer := object{"key_id": key.ID, "name": key.Name, "role": key.Role, "token": token}
		if len(rows) > 0 {
			answer["refused"] = rows
		}
		return view.WriteJSON(p.out, answer)
	}
	p.showRefused(rows)
	_, err = fmt.Fprintf(p.out, "Created API key %s. Copy it now: it is not shown again.\n%s\n", view.Printable(key.Name), token)
	return err
}

// refusedCommands are the stored steps that a server with these settings and API keys refuses.
func (p *program) refusedCommands(ctx context.Context, objects store.Objects) ([]pipeline.Refused, error) {
	s, err := p.serving()
	if err != nil {
		return nil, err
	}
	o, err := p.options()
	if err != nil {
		return nil, err
	}
	p.confining(&o, s)
	return o.RefusedCommands(ctx, objects, s.Policy)
}
