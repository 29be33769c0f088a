package lsp

// The types of the protocol, version 3.17, as far as they are used.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"` // in UTF-16 units
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type textEdit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type workspaceEdit struct {
	Changes map[string][]textEdit `json:"changes"`
}

type documentID struct {
	URI     string `json:"uri"`
	Version int    `json:"version"`
}

type openParams struct {
	Document struct {
		documentID
		Language string `json:"languageId"`
		Text     string `json:"text"`
	} `json:"textDocument"`
}

type changeParams struct {
	Document documentID `json:"textDocument"`
	Changes  []struct {
		Range *span  `json:"range"`
		Text  string `json:"text"`
	} `json:"contentChanges"`
}

// placeParams are those of every request about a place, or about a document.
type placeParams struct {
	Document documentID `json:"textDocument"`
	Position position   `json:"position"`
	NewName  string     `json:"newName"` // of rename
	Range    span       `json:"range"`   // of codeAction
	Context  struct {
		IncludeDeclaration bool `json:"includeDeclaration"` // of references
	} `json:"context"`
}

type diagnostic struct {
	Range    span   `json:"range"`
	Severity int    `json:"severity"`
	Code     string `json:"code,omitempty"`
	Source   string `json:"source"`
	Message  string `json:"message"`
}

const (
	severityError   = 1
	severityWarning = 2
)

type diagnosticsParams struct {
	URI         string       `json:"uri"`
	Version     *int         `json:"version,omitempty"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type completionList struct {
	Incomplete bool             `json:"isIncomplete"`
	Items      []completionItem `json:"items"`
}

type completionItem struct {
	Label         string     `json:"label"`
	Kind          int        `json:"kind"`
	Detail        string     `json:"detail,omitempty"`
	Documentation *markup    `json:"documentation,omitempty"`
	SortText      string     `json:"sortText"`
	FilterText    string     `json:"filterText,omitempty"`
	Edit          textEdit   `json:"textEdit"`
	More          []textEdit `json:"additionalTextEdits,omitempty"`
}

// Kinds of completion items.
const (
	kindFunction  = 3
	kindField     = 5
	kindVariable  = 6
	kindModule    = 9
	kindProperty  = 10
	kindValue     = 12
	kindFile      = 17
	kindReference = 18
)

type markup struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

func markdown(text string) *markup {
	if text == "" {
		return nil
	}
	return &markup{"markdown", text}
}

type hover struct {
	Contents *markup `json:"contents"`
	Range    span    `json:"range"`
}

type symbol struct {
	Name      string   `json:"name"`
	Detail    string   `json:"detail,omitempty"`
	Kind      int      `json:"kind"`
	Range     span     `json:"range"`
	Selection span     `json:"selectionRange"`
	Children  []symbol `json:"children,omitempty"`
}

// Kinds of symbols.
const (
	symbolStep      = 12 // function
	symbolParameter = 13 // variable
	symbolGroup     = 3  // namespace
	symbolOutput    = 7  // property
)

type codeAction struct {
	Title       string        `json:"title"`
	Kind        string        `json:"kind"`
	Diagnostics []diagnostic  `json:"diagnostics,omitempty"`
	Preferred   bool          `json:"isPreferred,omitempty"`
	Edit        workspaceEdit `json:"edit"`
}
