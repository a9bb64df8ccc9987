//! `beepgrid files`, `file-stage`, `file-upload` and `file-download`.

use std::path::PathBuf;

use beepgrid::{AttachmentId, Client, ConversationId};
use clap::Args;

use crate::input;
use crate::job::{CallArguments, Job};
use crate::output::NewFile;
use crate::render::Output;

/// The arguments of `files`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid files CONVERSATION_ID")]
pub(crate) struct FilesArguments {
    /// The conversation
    #[arg(value_name = "CONVERSATION_ID")]
    id: String,
    #[command(flatten)]
    call: CallArguments,
}

/// A file to upload.
#[derive(Debug, Args)]
struct UploadArguments {
    /// The file, 1 byte to 5 MiB
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its media type [default: application/octet-stream]
    #[arg(long, value_name = "MIME")]
    media: Option<String>,
    #[command(flatten)]
    call: CallArguments,
}

/// The arguments of `file-stage`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid file-stage --media application/pdf orders.pdf\n\n\
                        Put the id into attachment_ids of a message or request within 24 hours. Nothing is sent twice: when the \
                        outcome is unknown, stage again; a draft that nobody claims goes by itself.")]
pub(crate) struct StageArguments {
    #[command(flatten)]
    upload: UploadArguments,
}

/// The arguments of `file-upload`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid file-upload --conversation CONVERSATION_ID notes.txt\n\n\
                        Nothing is sent twice: when the outcome is unknown, look with `beepgrid files` first.")]
pub(crate) struct FileUploadArguments {
    /// The conversation that gets it
    #[arg(long, value_name = "ID")]
    conversation: String,
    #[command(flatten)]
    upload: UploadArguments,
}

/// The arguments of `file-download`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  beepgrid file-download --out orders.pdf ATTACHMENT_ID")]
pub(crate) struct DownloadArguments {
    /// The file's id
    #[arg(value_name = "ATTACHMENT_ID")]
    id: String,
    /// Where it goes: a new file, which only you can read
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    call: CallArguments,
}

/// Lists the files of a conversation.
pub(crate) async fn files(arguments: FilesArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let files = client.attachments(&ConversationId::new(arguments.id)).timeout(arguments.call.timeout).await?;
    Output::json(&files)
}

/// Stores a draft.
pub(crate) async fn stage(job: &Job, arguments: StageArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let upload = arguments.upload;
    let (name, bytes) = input::file(&upload.file).await?;
    job.writes(None);
    let call = client.stage_attachment(&name, upload.media.as_deref().unwrap_or_default(), bytes);
    Output::json(&call.timeout(upload.call.timeout).await?)
}

/// Stores a file in a conversation.
pub(crate) async fn upload(job: &Job, arguments: FileUploadArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let upload = arguments.upload;
    let (name, bytes) = input::file(&upload.file).await?;
    job.writes(None);
    let media = upload.media.as_deref().unwrap_or_default();
    let call = client.upload_attachment(&ConversationId::new(arguments.conversation), &name, media, bytes);
    Output::json(&call.timeout(upload.call.timeout).await?)
}

/// Saves a file.
pub(crate) async fn download(arguments: DownloadArguments) -> anyhow::Result<Output> {
    let client = Client::from_env()?;
    let new = NewFile::prepare(&arguments.out)?;
    let bytes = client.download_attachment(&AttachmentId::new(arguments.id)).timeout(arguments.call.timeout).await?;
    new.finish(&bytes).map(Output::Json)
}
