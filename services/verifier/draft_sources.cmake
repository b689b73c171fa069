# The verifier's side of the hand-off to a drafter; included by CMakeLists.txt here. The hand-off itself knows no wire
# type, so that its tests run under the thread sanitizer.
tandem_library(handoff
  SOURCES draft_attachment.cc draft_blocks.cc draft_deadline.cc draft_handshake.cc ipc_draft_port.cc
  DEPS tandem::base tandem::kernels tandem::metrics tandem::ipc tandem::model)

tandem_library(draft_service
  SOURCES draft_service.cc draft_service_messages.cc
  DEPS tandem::handoff tandem::rpc tandem::proto)

set(TANDEM_DRAFT_SOURCES draft_setup.cc inprocess_draft_port.cc)
