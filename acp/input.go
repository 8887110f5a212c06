package acp

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AttachmentKind says what an attachment is; it decides which capability of the
// agent is asked for.
type AttachmentKind string

// The kinds of attachments.
const (
	AttachmentImage AttachmentKind = "image"
	AttachmentAudio AttachmentKind = "audio"
	AttachmentFile  AttachmentKind = "file"
)

// Attachment is something that comes with a prompt. It has data, a URL, or both.
type Attachment struct {
	Kind AttachmentKind
	Name string
	// MIMEType is as the caller named it, or what its name or kind suggests.
	MIMEType string
	// Data is the content, in standard base64.
	Data string
	// URL is where the content is.
	URL string
}

// rawAttachment is an attachment as callers write it. Those in the field know
// several names for one thing.
type rawAttachment struct {
	ArtifactType jsontext.Value `json:"artifact_type"`
	Type         jsontext.Value `json:"type"`
	Name         jsontext.Value `json:"name"`
	FileName     jsontext.Value `json:"file_name"`
	ArtifactID   jsontext.Value `json:"artifact_id"`
	ID           jsontext.Value `json:"id"`
	MIMEType     jsontext.Value `json:"mime_type"`
	ContentType  jsontext.Value `json:"content_type"`
	Content      jsontext.Value `json:"content"`
	URL          jsontext.Value `json:"url"`

	// Of a content element, by its type:
	Text        jsontext.Value `json:"text"`
	ImageBase64 jsontext.Value `json:"image_base64"`
	ImageURL    jsontext.Value `json:"image_url"`
	FileBase64  jsontext.Value `json:"file_base64"`
	FileURL     jsontext.Value `json:"file_url"`
}

// input reads the structured input: its attachments, or else those among its
// contents. It gives the text it holds, which counts only when prompt_text is
// empty.
func (r *memberReader) input(v jsontext.Value, q *Request) (said string) {
	if absent(v) {
		return ""
	}
	var in struct {
		Text        jsontext.Value `json:"text"`
		Contents    jsontext.Value `json:"contents"`
		Attachments jsontext.Value `json:"attachments"`
	}
	if v.Kind() != '{' || json.Unmarshal(v, &in, lenient) != nil {
		r.fail("input", "an object")
		return ""
	}
	said = r.text("input.text", in.Text)
	attached, contents := r.list("input.attachments", in.Attachments), r.list("input.contents", in.Contents)
	var words []string
	for _, c := range contents {
		a, ok := c.element()
		switch {
		case ok && len(attached) == 0:
			q.Attachments = append(q.Attachments, a)
		case !ok && stringOf(c.Type) == "text":
			words = append(words, stringOf(c.Text))
		}
	}
	for _, raw := range attached {
		q.Attachments = append(q.Attachments, raw.attachment())
	}
	if said == "" {
		said = strings.Join(words, "\n")
	}
	return said
}

func (r *memberReader) list(member string, v jsontext.Value) []rawAttachment {
	if absent(v) {
		return nil
	}
	var list []rawAttachment
	if v.Kind() != '[' || json.Unmarshal(v, &list, lenient) != nil {
		r.fail(member, "an array of objects")
		return nil
	}
	return list
}

// attachment reads an element of attachments.
func (a *rawAttachment) attachment() Attachment {
	kind := AttachmentFile
	switch strings.ToLower(first(a.ArtifactType, a.Type)) {
	case "image":
		kind = AttachmentImage
	case "audio", "voice":
		kind = AttachmentAudio
	}
	return newAttachment(kind, first(a.Name, a.FileName, a.ArtifactID, a.ID), first(a.MIMEType, a.ContentType), stringOf(a.Content), stringOf(a.URL))
}

// element reads an element of contents; false for one that is no attachment.
func (a *rawAttachment) element() (Attachment, bool) {
	name := first(a.FileName, a.Name)
	switch stringOf(a.Type) {
	case "image_base64":
		return newAttachment(AttachmentImage, name, "", stringOf(a.ImageBase64), ""), true
	case "image_url":
		url := stringOf(a.ImageURL)
		if o := objectOf(a.ImageURL); o != nil {
			url = stringOf(o["url"])
		}
		return newAttachment(AttachmentImage, name, "", "", url), true
	case "file_base64":
		return newAttachment(AttachmentFile, name, "", stringOf(a.FileBase64), ""), true
	case "file_url":
		return newAttachment(AttachmentFile, name, "", "", stringOf(a.FileURL)), true
	}
	return Attachment{}, false
}

// first gives the first text that is not empty.
func first(values ...jsontext.Value) string {
	for _, v := range values {
		if s := stringOf(v); s != "" {
			return s
		}
	}
	return ""
}

// newAttachment takes a data URL apart (RFC 2397) and fills in name and type.
func newAttachment(kind AttachmentKind, name, mime, data, url string) Attachment {
	a := Attachment{Kind: kind, Name: name, MIMEType: mime, Data: strings.TrimSpace(data), URL: strings.TrimSpace(url)}
	if a.Data == "" && strings.HasPrefix(a.URL, "data:") {
		a.Data, a.URL = a.URL, ""
	}
	if rest, is := strings.CutPrefix(a.Data, "data:"); is {
		head, body, _ := strings.Cut(rest, ",")
		said, _, _ := strings.Cut(head, ";")
		if a.MIMEType == "" {
			a.MIMEType = said
		}
		a.Data = body
		if !strings.HasSuffix(head, ";base64") {
			a.Data = "" // percent-encoded text; nobody sends it
		}
	}
	if a.MIMEType == "" {
		a.MIMEType = typeOf(kind, name, a.URL)
	}
	if a.Name == "" {
		a.Name = string(kind)
	}
	return a
}

// typeByExtension is small on purpose: what a system's own tables say differs from
// one machine to the next.
var typeByExtension = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".m4a": "audio/mp4",
	".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv", ".html": "text/html",
	".json": "application/json", ".pdf": "application/pdf", ".zip": "application/zip",
}

func typeOf(kind AttachmentKind, name, url string) string {
	url, _, _ = strings.Cut(url, "?")
	for _, n := range []string{name, url} {
		if t := typeByExtension[strings.ToLower(path.Ext(n))]; t != "" {
			return t
		}
	}
	switch kind {
	case AttachmentImage:
		return "image/jpeg"
	case AttachmentAudio:
		return "audio/mpeg"
	}
	return "application/octet-stream"
}

// promptCapabilities are what an agent takes beside text and links, which all do.
type promptCapabilities struct{ image, audio, embedded bool }

// inlineTextMax is how long a text file may be to stand in the prompt itself, for
// agents that take no embedded files, in bytes.
const inlineTextMax = 256 << 10

// promptBlocks makes the prompt array of session/prompt. What the agent does not
// take as content goes as a link, a text file as text, and of the rest a note
// tells, so that the agent does not answer as if nothing had been there.
func promptBlocks(q *Request, can promptCapabilities) []byte {
	var blocks [][]byte
	if strings.TrimSpace(q.Prompt) != "" {
		blocks = append(blocks, textBlock(q.Prompt))
	}
	var left []string
	for i := range q.Attachments {
		a := &q.Attachments[i]
		if b := a.block(can); b != nil {
			blocks = append(blocks, b)
			continue
		}
		left = append(left, fmt.Sprintf("%s (%s, %s)", headOf(a.Name, 128), a.Kind, headOf(a.MIMEType, 128)))
	}
	if len(left) > 0 {
		blocks = append(blocks, textBlock("[Attachments that could not be passed on to this agent: "+strings.Join(left, "; ")+"]"))
	}
	b := []byte{'['}
	for i, block := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, block...)
	}
	return append(b, ']')
}

// block makes one content block, nil when there is no way to pass it on.
func (a *Attachment) block(can promptCapabilities) []byte {
	raw, err := base64.StdEncoding.Strict().DecodeString(a.Data)
	readable := err == nil && len(raw) > 0
	text := readable && strings.HasPrefix(a.MIMEType, "text/") && utf8.Valid(raw)
	switch {
	case readable && a.Kind == AttachmentImage && can.image, readable && a.Kind == AttachmentAudio && can.audio:
		b := appendText([]byte(`{"type":`), string(a.Kind))
		b = appendText(append(b, `,"mimeType":`...), a.MIMEType)
		return append(appendText(append(b, `,"data":`...), a.Data), '}')
	case readable && a.Kind == AttachmentFile && can.embedded:
		b := appendText([]byte(`{"type":"resource","resource":{"uri":`), a.uri())
		b = appendText(append(b, `,"mimeType":`...), a.MIMEType)
		if text {
			return append(appendText(append(b, `,"text":`...), string(raw)), "}}"...)
		}
		return append(appendText(append(b, `,"blob":`...), a.Data), "}}"...)
	case a.URL != "":
		b := appendText([]byte(`{"type":"resource_link","uri":`), a.URL)
		b = appendText(append(b, `,"name":`...), a.Name)
		return append(appendText(append(b, `,"mimeType":`...), a.MIMEType), '}')
	case text && len(raw) <= inlineTextMax:
		return textBlock("[Attached file " + headOf(a.Name, 128) + "]\n" + string(raw))
	}
	return nil
}

// uri names an embedded file; one is required, and it need lead nowhere.
func (a *Attachment) uri() string {
	if a.URL != "" {
		return a.URL
	}
	return "attachment:///" + url.PathEscape(a.Name)
}

func textBlock(text string) []byte {
	return append(appendText([]byte(`{"type":"text","text":`), text), '}')
}
