package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/settings"
	"github.com/stepwell/stepwell/view"
)

// defaultServer is where `stepwell serve` listens by default. Tests of the documentation set another one.
var defaultServer = "http://" + settings.DefaultListen

// remotePatience bounds one call of the API.
const remotePatience = 60 * time.Second

// connection says which API a command speaks to: that of a server, or the one in this process over a database.
type connection struct {
	server string
	output *choice
	here   bool    // only a server that is named is asked, not one that may be at the usual address
	makes  bool    // the database, if there is none
	sends  bool    // something to keep: makes the database, if there is none where --data or --db says
	lasts  bool    // for as long as it takes
	newest *lastOf // what "last" as the first argument stands for; nil: nothing
	flags  *pflag.FlagSet
	served bool                 // only a server can answer: there are no flags for a database
	own    func(*pflag.FlagSet) // adds the command's own flags, which come first; nil: none
}

func (c *connection) add(p *program, f *pflag.FlagSet) {
	if !c.served {
		p.settings.addDB(f)
	}
	c.addServer(f, format(f, "text", "json"))
}

func (c *connection) addServer(f *pflag.FlagSet, output *choice) {
	c.flags, c.output = f, output
	usual := " to ask instead of the database; else STEPWELL_SERVER, else " + defaultServer + " if one answers there"
	switch {
	case c.served:
		usual = " to ask; else STEPWELL_SERVER, else " + defaultServer
	case c.here:
		usual = " to ask instead of the database; else STEPWELL_SERVER"
	}
	f.StringVar(&c.server, "server", "", "`URL` of a server"+usual)
}

// elsewhere reports whether a server is named, by --server or STEPWELL_SERVER. --data and --db name a database instead.
func (p *program) elsewhere(c *connection) bool {
	v, _ := p.env("STEPWELL_SERVER")
	return c.server != "" || v != "" && !c.choseDatabase()
}

// where repeats the flags that say what is asked, for commands that are suggested.
func (r *request) where() string {
	switch {
	case r.server != "":
		return " --server " + r.server
	case r.program.elsewhere(r.connection):
		return ""
	}
	return r.program.dbFlag()
}

func (c *connection) choseDatabase() bool {
	return c.flags != nil && c.flags.Lookup("db") != nil && (settingFlag(c.flags, "data").Changed || c.flags.Changed("db"))
}

// calling runs f with a client of the API and a context that ends with an interrupt. A server is asked if one is named or
// answers at the usual address, else the database.
func (p *program) calling(c *connection, f func(ctx context.Context, client *client.Client) error) error {
	alive, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	named := p.elsewhere(c)
	chosen := c.choseDatabase()
	var err error
	if named || !c.here && !chosen {
		err = p.callServer(alive, c, f)
		if named || c.served || !errors.Is(err, syscall.ECONNREFUSED) || c.flags == nil || !c.makes && !app.DatabaseExists(p.settings.db) {
			return interrupted(alive, err)
		}
		fmt.Fprintf(p.err, "no server answers at %s: working on %s\n", defaultServer, p.settings.shownDB())
	}
	return interrupted(alive, p.callHere(alive, c, f))
}

func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return exitError(exitInterrupted)
	}
	return err
}

// callServer asks a server. The key comes from the environment: arguments are seen by everybody on the machine.
func (p *program) callServer(ctx context.Context, c *connection, f func(ctx context.Context, client *client.Client) error) error {
	named, _ := p.env("STEPWELL_SERVER")
	key, _ := p.env("STEPWELL_API_KEY")
	client, err := client.New(client.Options{URL: cmp.Or(c.server, named, defaultServer), Token: key})
	if err != nil {
		return err
	}
	if !c.lasts {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, remotePatience, stepwell.Errorf(stepwell.CodeTimeout, "", "no answer within %s", remotePatience))
		defer cancel()
	}
	return f(ctx, client)
}

// takenElsewhere tells of a request that the process running the executions has carried out.
const takenElsewhere = "another process runs the executions of this database; it has taken the %s\n"

// callHere asks the API in this process: beside whatever process runs the executions
// of the database.
func (p *program) callHere(ctx context.Context, c *connection, f func(ctx context.Context, client *client.Client) error) (err error) {
	o, err := p.options()
	if err != nil {
		return err
	}
	o.Log = p.log()
	if c.here {
		o.DB = p.settings.db
		r, err := app.OpenReading(ctx, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return f(ctx, r.Client)
	}
	if !c.makes && !c.sends && !app.DatabaseExists(p.settings.db) {
		return p.noDatabase(ctx)
	}
	l, err := app.OpenLocal(ctx, app.ServerOptions{Options: o})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	err = f(ctx, l.Client)
	if l.Decided() {
		fmt.Fprintf(p.err, takenElsewhere, "decision")
	}
	return p.finishHere(ctx, l, err)
}

// noDatabase is the refusal of a command that reads, or changes what is there: a mistyped name makes no database.
func (p *program) noDatabase(ctx context.Context) error {
	s, err := app.OpenReader(ctx, p.settings.db, p.log())
	if err == nil { // made meanwhile
		err = errors.Join(stepwell.Errorf(stepwell.CodeUnavailable, "repeat the command", "the database was made just now"), s.Close())
	}
	return err
}

// finishHere keeps this process going until what a command has started has ended: nothing else runs it. err is the
// command's own; else the first execution that did not complete says the exit code. The first interrupt lets the running
// steps finish, the second stops them.
func (p *program) finishHere(ctx context.Context, l *app.Local, err error) error {
	if l.Running() && ctx.Err() == nil {
		fmt.Fprintln(p.err, "no server runs it: this command does, until it has ended (Ctrl-C lets the running steps finish)")
	}
	failed := l.Finish(ctx)
	if ctx.Err() != nil && l.Running() {
		again, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if l.Drain(again); l.Running() {
			fmt.Fprintf(p.err, "what is unfinished: stepwell executions list --status running%s\n", p.dbFlag())
			return exitError(exitInterrupted)
		}
	} else if failed != nil {
		return errors.Join(err, failed)
	}
	for _, x := range l.Ended() {
		if err == nil && x.Status != stepwell.ExecutionCompleted {
			err = exitOf(x.Status.String())
		}
	}
	return err
}

// pathTo joins parts of a path, each of which may hold anything.
func pathTo(parts ...string) string {
	var b strings.Builder
	b.WriteString("/api/v1")
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(part))
	}
	return b.String()
}

// object is one JSON object of an answer.
type object = map[string]any

// answered shows what a call has given: the JSON, or a line for people.
func (p *program) answered(c *connection, answer any, line string, args ...any) error {
	if c.output.value == "json" {
		return view.WriteJSON(p.out, answer)
	}
	_, err := fmt.Fprintf(p.out, line+"\n", args...)
	return err
}

// request is what a command asks: of which API, about what, and how the answer is shown.
type request struct {
	*connection
	program *program
	client  *client.Client
	args    []string
}

// asking makes a command about what a server keeps.
func (p *program) asking(use, short string, do func(ctx context.Context, r *request) error) *cobra.Command {
	return p.askingOver(&connection{}, use, short, do)
}

// askingOver makes a command that asks the API. The words in capitals of use are its arguments.
func (p *program) askingOver(c *connection, use, short string, do func(ctx context.Context, r *request) error) *cobra.Command {
	var names []string
	for _, word := range strings.Fields(use)[1:] {
		if strings.ToUpper(word) != word || strings.HasPrefix(word, "-") {
			break
		}
		names = append(names, word)
	}
	what := strings.Join(names, ", ")
	if at := strings.LastIndex(what, ", "); at >= 0 {
		what = what[:at] + " or" + what[at+1:]
	}
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments(len(names), len(names), what),
		RunE: func(_ *cobra.Command, args []string) error {
			return p.calling(c, func(ctx context.Context, client *client.Client) error {
				if err := c.newest.resolve(ctx, client, args); err != nil {
					return err
				}
				return do(ctx, &request{c, p, client, args})
			})
		}}
	if c.own != nil {
		c.own(cmd.Flags())
	}
	c.add(p, cmd.Flags())
	return cmd
}

// call asks for an object.
func (r *request) call(ctx context.Context, method, path string, query url.Values, body any) (object, error) {
	answer := object{}
	err := r.client.Call(ctx, method, path, query, body, &answer)
	return answer, err
}

// show writes an answer as JSON, or else has text write it.
func (r *request) show(answer any, text func() error) error {
	if r.output.value == "json" {
		return view.WriteJSON(r.program.out, answer)
	}
	return text()
}

// table writes rows as JSON or as a table; none is what is said when there are none.
func (r *request) table(rows []object, columns []view.Column, none string) error {
	return r.show(rows, func() error {
		if len(rows) == 0 {
			_, err := fmt.Fprintln(r.program.out, none)
			return err
		}
		return view.WriteTable(r.program.out, columns, rows)
	})
}

// verb makes a command that calls one path of one object, such as `schedules pause ID`.
func (p *program) verb(use, short, method string, path func(id string) string, line string) *cobra.Command {
	return p.verbOver(&connection{}, use, short, method, path, line)
}

func (p *program) verbOver(c *connection, use, short, method string, path func(id string) string, line string) *cobra.Command {
	return p.askingOver(c, use, short, func(ctx context.Context, r *request) error {
		answer, err := r.call(ctx, method, path(r.args[0]), nil, nil)
		if err != nil {
			return err
		}
		return p.shown(r.connection, answer, line, view.Printable(r.args[0]))
	})
}

// group makes a command that only has others below it.
func (p *program) group(name string, aliases []string, short, long string, subs ...*cobra.Command) *cobra.Command {
	cmd := p.servedGroup(name, short, long, subs...)
	cmd.Aliases = aliases
	cmd.Long += " With --data or --db, or if no server is named and none answers, it opens the database directly: changes need exclusive access to it, and executions run in this process until they end."
	return cmd
}

// servedGroup makes a group of commands that only a server can answer.
func (p *program) servedGroup(name, short, long string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short, Args: p.unknownCommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Long: long + "\n\nIt asks a server: --server URL, else STEPWELL_SERVER, else " + defaultServer + ". The API key is that\nof STEPWELL_API_KEY."}
	cmd.AddCommand(subs...)
	return cmd
}
