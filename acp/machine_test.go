package acp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"codingrelay/wire"
)

var matrixLimits = limits{
	mcpName: "m", client: [2]string{"relay", "1"}, cancelGrace: 2 * time.Second, eventBytes: EventBytesMaxDefault, lineBytes: LineBytesMax, canAsk: true,
}

// in puts a machine into a state.
func in(t *testing.T, s state, permission string) *machine {
	t.Helper()
	m := newMachine(request(t, `,"permission_decision":"`+permission+`"`), matrixLimits)
	steps := []func(){
		m.start,
		func() { m.text(`{"id":1,"result":{"protocolVersion":1}}`) },
		func() { m.text(`{"id":2,"result":{"sessionId":"s"}}`) },
		m.cancel,
		func() { m.text(`{"id":3,"result":{"stopReason":"cancelled"}}`) },
	}
	for _, step := range steps[:s] {
		step()
	}
	if m.state != s {
		t.Fatalf("the machine is %v, want %v", m.state, s)
	}
	m.take()
	return m
}

func (m *machine) text(text string) { m.line(line{text: []byte(text), bytes: len(text)}) }

// show prints what a machine wants done and how it ended.
func show(m *machine) string {
	var b strings.Builder
	for _, e := range m.take() {
		text := strings.TrimSuffix(string(e.data), "\n")
		switch e.kind {
		case effectWrite:
			fmt.Fprintf(&b, " write(%s)", text)
		case effectEmit:
			fmt.Fprintf(&b, " emit(%s)", text)
		case effectTimer:
			fmt.Fprintf(&b, " timer(%v, step %d)", e.wait, e.number)
		case effectAsk:
			fmt.Fprintf(&b, " ask(%d, %s)", e.number, text)
		case effectNoise:
			fmt.Fprintf(&b, " noise(%s)", text)
		}
	}
	switch {
	case m.state != stateEnded:
	case m.out.failure != nil:
		fmt.Fprintf(&b, " failed(%s)", m.out.failure.Code)
	case m.out.completed != nil:
		fmt.Fprintf(&b, " completed(%s)", m.out.completed)
	default:
		b.WriteString(" cancelled")
	}
	return b.String()
}

const (
	updateText  = `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"x"}}}}`
	askQuestion = `{"id":"q","method":"session/request_permission","params":{"options":[{"optionId":"a","kind":"allow_once"}]}}`
)

// What each state makes of each input: the policy as a table. Read a change of it.
func TestMachineMatrix(t *testing.T) {
	// The number of the request that is open in each state; 9 is in none.
	open := map[state]int{stateInitializing: 1, stateOpening: 2, statePrompting: 3, stateStopping: 3}
	inputs := []struct {
		name string
		do   func(m *machine)
	}{
		{"good answer", func(m *machine) {
			m.text(fmt.Sprintf(`{"id":%d,"result":{"protocolVersion":1,"sessionId":"s","stopReason":"end_turn"}}`, open[m.state]))
		}},
		{"error answer", func(m *machine) {
			m.text(fmt.Sprintf(`{"id":%d,"error":{"code":-32603,"message":"no"}}`, open[m.state]))
		}},
		{"other answer", func(m *machine) { m.text(`{"id":9,"result":{"sessionId":"s"}}`) }},
		{"answer of another kind", func(m *machine) { m.text(fmt.Sprintf(`{"id":"%d","result":{"sessionId":"s"}}`, open[m.state])) }},
		{"update", func(m *machine) { m.text(updateText) }},
		{"update, no session", func(m *machine) { m.text(strings.Replace(updateText, `"sessionId":"s",`, "", 1)) }},
		{"update, foreign", func(m *machine) { m.text(strings.Replace(updateText, `"s"`, `"other"`, 1)) }},
		{"question, policy", func(m *machine) { m.req.Permission = "allow_once"; m.text(askQuestion) }},
		{"question, asked", func(m *machine) { m.text(askQuestion) }},
		{"question, answered", func(m *machine) { m.text(askQuestion); m.answered(1, "a"); m.answered(1, "a") }},
		{"question, cancel", func(m *machine) { m.text(askQuestion); m.cancel(); m.answered(1, "a") }},
		{"unknown request", func(m *machine) { m.text(`{"id":1.50,"method":"x"}`) }},
		{"unknown notification", func(m *machine) { m.text(`{"method":"x"}`) }},
		{"noise", func(m *machine) { m.text(`[1]`) }},
		{"too long", func(m *machine) { m.line(line{bytes: 1 << 30}) }},
		{"timeout", func(m *machine) { m.timeout(m.step) }},
		{"stale timeout", func(m *machine) { m.timeout(m.step - 1) }},
		{"cancel", func(m *machine) { m.cancel(); m.cancel() }},
		{"gone, exit 7", func(m *machine) { m.gone(&Exit{Code: 7}) }},
		{"gone, signal 9", func(m *machine) { m.gone(&Exit{Code: -1, Signal: 9}) }},
		{"gone, unknown", func(m *machine) { m.gone(nil) }},
	}
	var b strings.Builder
	for s := stateInitializing; s <= stateEnded; s++ {
		for _, input := range inputs {
			m := in(t, s, PermissionAsk)
			input.do(m)
			fmt.Fprintf(&b, "%-12v %-22s -> %-12v%s\n", s, input.name, m.state, show(m))
		}
	}
	golden(t, "machine.golden", b.String())
}

// No edge can be walked that is not in the table, and each in it can.
func TestMachineHasNoOtherEdges(t *testing.T) {
	for from := stateIdle; from <= stateEnded; from++ {
		for to := stateIdle; to <= stateEnded; to++ {
			m := &machine{state: from}
			refused := func() (refused bool) {
				defer func() { refused = recover() != nil }()
				m.become(to)
				return false
			}()
			allowed := false
			for _, e := range machineEdges[from] {
				allowed = allowed || e == to
			}
			if refused == allowed {
				t.Errorf("%v to %v: refused %t", from, to, refused)
			}
		}
	}
}

// An agent cannot make questions pile up: above the bound they are answered.
func TestQuestionsAreBounded(t *testing.T) {
	m := in(t, statePrompting, PermissionAsk)
	for i := range questionsMax + 1 {
		m.text(strings.Replace(askQuestion, `"q"`, fmt.Sprint(i), 1))
	}
	if got := show(m); strings.Count(got, "ask(") != questionsMax || strings.Count(got, `"id":64,"result":{"outcome":{"outcome":"cancelled"}}`) != 1 {
		t.Errorf("got %s", got)
	}
	m.cancel()
	if got := show(m); strings.Count(got, `{"outcome":"cancelled"}`) != questionsMax || !strings.HasPrefix(got, ` write({"jsonrpc":"2.0","method":"session/cancel"`) {
		t.Errorf("at the cancel: %s", got)
	}
}

// Protocol section 9: tool calls are told once as started and once as completed, with
// what the agent says kept whole.
func TestToolCallsAreTold(t *testing.T) {
	m := in(t, statePrompting, "allow_once")
	var b strings.Builder
	for _, update := range []string{
		`{"sessionUpdate":"tool_call","toolCallId":"1","title":"Edit x","status":"pending","rawInput":{"path":"x","n":1.50}}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"in_progress"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","title":"Edited x","status":"completed","vendor":{"n":1.50},"content":[{"type":"content","content":{"type":"text","text":"ok\ud800"}}]}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"1","status":"completed"}`,
		`{"sessionUpdate":"tool_call","toolCallId":"2","title":"t","_meta":{"claudeCode":{"toolName":"Bash"}},"status":"failed","rawOutput":"no"}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"3","status":"completed"}`,
		`{"sessionUpdate":"tool_call","title":"no id"}`,
		`{"sessionUpdate":"tool_call","toolCallId":"4","name":"deep","rawInput":` + strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 300) + `}`,
		`{"sessionUpdate":"tool_call_update","toolCallId":"4","status":"completed","rawOutput":"` + strings.Repeat("x", EventBytesMaxDefault) + `"}`,
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"hm"}}`,
		`{"sessionUpdate":"plan","entries":[]}`,
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"","mimeType":"image/png"}}`,
		`null`,
	} {
		m.text(`{"method":"session/update","params":{"sessionId":"s","update":` + update + `}}`)
		fmt.Fprintf(&b, "%.150s\n", update)
		for _, e := range m.take() {
			fmt.Fprintf(&b, "  %s\n", e.data)
		}
	}
	// A turn that only worked and said nothing is a good one.
	m.text(`{"id":3,"result":{"stopReason":"end_turn"}}`)
	fmt.Fprintf(&b, "end_turn\n %s\n", show(m))
	golden(t, "tools.golden", b.String())
}

// Protocol section 9: all_content is the message so far; a new message id begins anew,
// and the last message is the one that is completed.
func TestMessagesAreKeptApart(t *testing.T) {
	m := in(t, statePrompting, "allow_once")
	chunk := func(id, text string) {
		m.text(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","messageId":"` + id + `","content":{"type":"text","text":"` + text + `"}}}}`)
	}
	chunk("a", "one ")
	chunk("a", "two")
	chunk("b", "three")
	chunk("", " four ")
	m.text(`{"id":3,"result":{"stopReason":"end_turn"}}`)
	golden(t, "messages.golden", strings.ReplaceAll(show(m), " emit", "\nemit")+"\n")
}

// Protocol section 1: no event is longer than a hub takes, however long the text and
// however its characters are written.
func TestEventsFitTheLimit(t *testing.T) {
	for _, unit := range []string{"x", `\u0001`, "你", `\"`} {
		m := in(t, statePrompting, "allow_once")
		m.opt.eventBytes = 16 << 10
		for range 30 {
			m.text(strings.Replace(updateText, `"text":"x"`, `"text":"`+strings.Repeat(unit, 3000)+`"`, 1))
		}
		m.text(`{"id":3,"result":{"stopReason":"end_turn"}}`)
		var all strings.Builder
		effects := m.take()
		for _, e := range effects {
			if len(e.data) > 16<<10 {
				t.Errorf("%s: an event of %d bytes", unit, len(e.data))
			}
			all.Write(append(e.data, '\n'))
		}
		deltas, message := content(t, all.String())
		var want string
		if err := unmarshal([]byte(`"`+strings.Repeat(unit, 30*3000)+`"`), &want); err != nil {
			t.Fatal(err)
		}
		if deltas != want || !strings.HasPrefix(want, message) || len(message) < 1000 {
			t.Errorf("%s: %d bytes in deltas, want %d; %d in the message", unit, len(deltas), len(want), len(message))
		}
		if s := all.String(); !strings.Contains(s, `"all_content_omitted":true`) || !strings.Contains(s, fmt.Sprintf(`"truncated":true,"bytes":%d`, len(want))) {
			t.Errorf("%s: a mark is missing", unit)
		}
	}
}

// Whatever an agent prints, nothing panics, every event is one that a frame can hold,
// and every answer is one line of JSON.
func FuzzMachine(f *testing.F) {
	f.Add(`{"id":1,"result":{"protocolVersion":1}}` + "\n" + `{"id":2,"result":{"sessionId":"s\ud800"}}` + "\n" + updateText + "\n" + askQuestion)
	f.Add(`{"id":1,"result":{}}` + "\n" + `{"id":2,"result":{"id":"s"}}` + "\n" + `{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"1","status":"completed","a":1,"a":[{"\udc00":"` + "\xff" + `"}]}}}`)
	f.Add(`{"id":{"a":` + "\t" + `1},"method":"` + "\xff" + `"}` + "\n" + `{"id":1,"error":[]}`)
	f.Fuzz(func(t *testing.T, output string) {
		m := newMachine(request(t, `,"permission_decision":"ask"`), matrixLimits)
		m.start()
		for l := range strings.Lines(output) {
			m.text(strings.TrimSuffix(l, "\n"))
		}
		m.cancel()
		m.gone(nil)
		for _, e := range m.take() {
			var err error
			switch e.kind {
			case effectEmit:
				_, err = wire.NormalizeObject(e.data)
			case effectWrite:
				if strings.IndexByte(string(e.data), '\n') != len(e.data)-1 {
					t.Errorf("not one line: %q", e.data)
				}
				var v map[string]any
				err = json.Unmarshal(e.data, &v)
			}
			if err != nil {
				t.Errorf("%v: %q", err, e.data)
			}
		}
	})
}
